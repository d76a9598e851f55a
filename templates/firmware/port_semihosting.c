/* SPDX-License-Identifier: 0BSD */
/* The harness on an emulator with Arm semihosting: requests and replies are two files of the host. */
#include "port.h"

enum { SYS_OPEN = 1, SYS_WRITE = 5, SYS_READ = 6, SYS_EXIT_EXTENDED = 0x20 };
enum { OPEN_READ_BINARY = 1, OPEN_WRITE_BINARY = 5 };
#define APPLICATION_EXIT 0x20026u

int tc_semihosting(uint32_t operation, const void *arguments); /* startup_*.S */
int tc_run_measured(void *arena, uint32_t *stack_bytes);       /* startup_*.S */

static uint32_t requests, replies;

static uint32_t open_file(const char *name, uint32_t length, uint32_t mode)
{
    const uintptr_t arguments[3] = {(uintptr_t)name, mode, length};
    int handle = tc_semihosting(SYS_OPEN, arguments);
    if (handle == -1) tc_port_exit(4);
    return (uint32_t)handle;
}

void tc_port_open(void)
{
    requests = open_file("requests.bin", 12, OPEN_READ_BINARY);
    replies = open_file("replies.bin", 11, OPEN_WRITE_BINARY);
}

int tc_port_read(void *data, uint32_t bytes)
{
    const uintptr_t arguments[3] = {requests, (uintptr_t)data, bytes};
    return tc_semihosting(SYS_READ, arguments) == 0; /* answers the number of bytes that are missing */
}

void tc_port_write(const void *data, uint32_t bytes)
{
    const uintptr_t arguments[3] = {replies, (uintptr_t)data, bytes};
    if (tc_semihosting(SYS_WRITE, arguments) != 0) tc_port_exit(4);
}

void tc_port_flush(void) {}

void tc_port_exit(int code)
{
    const uintptr_t arguments[2] = {APPLICATION_EXIT, (uintptr_t)code};
    tc_semihosting(SYS_EXIT_EXTENDED, arguments);
    for (;;) {
    }
}

int tc_port_run(void *arena, tc_measured_t *measured)
{
    return tc_run_measured(arena, &measured->stack_bytes);
}
