/* SPDX-License-Identifier: 0BSD */
/* The harness as a process of this computer: requests on stdin, replies on stdout. */
#define _POSIX_C_SOURCE 200809L
#include "port.h"
#include "tc_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void tc_port_open(void) {}

int tc_port_read(void *data, uint32_t bytes)
{
    return fread(data, 1, bytes, stdin) == bytes;
}

void tc_port_write(const void *data, uint32_t bytes)
{
    if (fwrite(data, 1, bytes, stdout) != bytes) exit(4);
}

void tc_port_flush(void)
{
    fflush(stdout);
}

void tc_port_exit(int code)
{
    fflush(stdout);
    exit(code);
}

/* With the address sanitizer the arena is a block of exactly its size, so that the first byte outside stops
 * the process; without it the guards do the watching. */
uint8_t *tc_port_arena(int *guarded)
{
    static uint8_t *arena;
    size_t guard = 0;
#ifndef TC_SANITIZE
    *guarded = 1;
    guard = (TC_GUARD_BYTES + tc_model.arena_align - 1) / tc_model.arena_align * tc_model.arena_align;
#else
    *guarded = 0;
#endif
    if (arena == NULL) {
        size_t align = tc_model.arena_align < sizeof(void *) ? sizeof(void *) : tc_model.arena_align;
        void *block = NULL;
        if (posix_memalign(&block, align, guard + tc_model.arena_bytes + guard) != 0) exit(5);
        arena = (uint8_t *)block + guard;
    }
    return arena;
}

int tc_port_run(void *arena, tc_measured_t *measured)
{
    int status = tc_model_run(arena);
    (void)measured;
    fflush(stdout);
    return status;
}

uint64_t tc_port_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}
