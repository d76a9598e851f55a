/* SPDX-License-Identifier: 0BSD */
/* The words of the clips, on a board with Arduino's functions, or on a computer. */
#include <words.h>

static kws_arena_t arena; /* all memory of the model but the stack */

#if defined(ARDUINO)
#include <Arduino.h>

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
#else
#include <cstdio>

static void say(const char *text)
{
    std::fputs(text, stdout);
}

int main()
{
    return words_run(&arena, say); /* how many clips were heard wrong: 0 is success */
}
#endif
