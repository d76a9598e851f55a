/* SPDX-License-Identifier: 0BSD */
/* The program on a computer: listen FILE.wav */
#include "port.h"

#include <stdio.h>

static FILE *recording;

int32_t port_read(uint8_t *to, int32_t n)
{
    return (int32_t)fread(to, 1, (size_t)n, recording);
}

void port_say(const char *text)
{
    (void)fputs(text, stdout);
}

int main(int argc, char **argv)
{
    int code;

    recording = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (recording == NULL) {
        (void)fprintf(stderr, argc == 2 ? "error: cannot read %s\n" : "usage: listen FILE.wav\n", argv[argc - 1]);
        return 2;
    }
    code = recording_run();
    (void)fclose(recording);
    return code;
}
