/* SPDX-License-Identifier: 0BSD */
#include <stdio.h>

#include "words.h"

static kws_arena_t arena; /* all memory of the model but the stack */

static void say(const char *text)
{
    (void)fputs(text, stdout);
}

int main(void)
{
    return words_run(&arena, say); /* how many clips were heard wrong: 0 is success */
}
