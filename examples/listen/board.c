/* SPDX-License-Identifier: 0BSD */
/* The program on an emulated Cortex-M board, which reads the recording from this computer by semihosting. On a board of
 * your own put the microphone's driver into its place: samples, instead of bytes of a file, go to kws_push. */
#include "port.h"

enum { OPEN = 1, WRITE0 = 4, READ = 6, COMMAND_LINE = 0x15, EXIT_EXTENDED = 0x20 };

static uint32_t handle;

static uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

int32_t port_read(uint8_t *to, int32_t n)
{
    const uint32_t block[3] = {handle, (uint32_t)(uintptr_t)to, (uint32_t)n};

    return n - (int32_t)semihosting(READ, block); /* it returns what is missing */
}

void port_say(const char *text)
{
    (void)semihosting(WRITE0, text);
}

/* Opens the file that is the last word of the command line. Returns whether it is there. */
static int opened(void)
{
    static char line[256];
    const uint32_t asked[2] = {(uint32_t)(uintptr_t)line, sizeof line};
    const char *name = line;
    uint32_t block[3] = {0, 1, 0}; /* 1: "rb" */

    if (semihosting(COMMAND_LINE, asked) != 0) {
        return 0;
    }
    for (const char *at = line; *at != 0; at++) {
        name = *at == ' ' ? at + 1 : name;
        block[2] = (uint32_t)(at + 1 - name);
    }
    block[0] = (uint32_t)(uintptr_t)name;
    handle = semihosting(OPEN, block);
    return handle != 0xFFFFFFFFu;
}

int main(void)
{
    uint32_t ended[2] = {0x20026u, 2}; /* ADP_Stopped_ApplicationExit, the exit code */

    if (opened()) {
        ended[1] = (uint32_t)recording_run();
    } else {
        port_say("error: cannot read the recording\n");
    }
    (void)semihosting(EXIT_EXTENDED, ended);
    for (;;) {
    }
}
