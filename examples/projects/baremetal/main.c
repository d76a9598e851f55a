/* SPDX-License-Identifier: 0BSD */
/* Prints by semihosting, which QEMU and debuggers understand. On a board without a debugger such a call is a fault: put
 * your UART into the place of say(). */
#include <stdint.h>

#include "words.h"

enum { WRITE0 = 0x04, EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

static kws_arena_t arena; /* all memory of the model but the stack */

static void semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;

    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void say(const char *text)
{
    semihosting(WRITE0, text);
}

int main(void)
{
    const uint32_t ended[2] = {APPLICATION_EXIT, (uint32_t)words_run(&arena, say)};

    semihosting(EXIT_EXTENDED, ended); /* the emulator's exit code: how many clips were heard wrong */
    for (;;) {
    }
}
