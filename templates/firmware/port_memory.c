/* SPDX-License-Identifier: 0BSD */
/* The harness on Renode, which has no semihosting for these cores: the requests lie in a memory of their own, replies
 * leave by a console, and a second console says when the firmware has ended (templates/renode/session.robot.j2). Every
 * word that is written to a console is a character. */
#include "port.h"

#define CONSOLE (*(volatile uint32_t *)(uintptr_t)TC_CONSOLE)
#define REPLIES (*(volatile uint32_t *)(uintptr_t)TC_REPLIES)

int tc_run_measured(void *arena, uint32_t *stack_bytes); /* startup_*.S */

static const uint8_t *requests = (const uint8_t *)(uintptr_t)TC_REQUESTS; /* what is not read yet */

void tc_port_open(void) {}

int tc_port_read(void *data, uint32_t bytes)
{
    uint8_t *p = data;
    while (bytes-- > 0) *p++ = *requests++;
    return 1;
}

void tc_port_write(const void *data, uint32_t bytes)
{
    const uint8_t *p = data;
    while (bytes-- > 0) REPLIES = *p++;
}

void tc_port_flush(void) {}

void tc_port_exit(int code)
{
    const char *text = code == 0 ? "firmware ended\r\n" : "firmware ended: failed\r\n";
    while (*text != 0) CONSOLE = (uint8_t)*text++;
    for (;;) __asm__ volatile("wfi");
}

int tc_port_run(void *arena, tc_measured_t *measured)
{
    return tc_run_measured(arena, &measured->stack_bytes);
}
