/* SPDX-License-Identifier: 0BSD */
/* Says every five seconds which words the model hears in the clips of clips.h. Both libraries are named in README.md. */
#include <kws.h>
#include <words.h>

static kws_arena_t arena; /* all memory of the model but the stack */

static void say(const char *text)
{
    Serial.print(text);
}

void setup()
{
    Serial.begin(115200);
}

void loop()
{
    words_run(&arena, say);
    delay(5000);
}
