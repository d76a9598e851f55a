/* SPDX-License-Identifier: 0BSD */
#include <stdio.h>

#include "kws_esp.h"
#include "words.h"

static void say(const char *text)
{
    (void)fputs(text, stdout);
}

void app_main(void)
{
    kws_arena_t *arena = kws_lock(portMAX_DELAY); /* other tasks wait until it is unlocked */

    (void)words_run(arena, say);
    kws_unlock();
}
