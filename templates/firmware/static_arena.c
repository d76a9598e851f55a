/* SPDX-License-Identifier: 0BSD */
/* The arena with its guards, where firmware has the board's memory to itself. */
#include "model_glue.h"
#include "port.h"

uint8_t *tc_port_arena(int *guarded)
{
    enum { GUARD = (TC_GUARD_BYTES + TC_ARENA_ALIGN - 1) / TC_ARENA_ALIGN * TC_ARENA_ALIGN };
    static uint8_t memory[GUARD + TC_ARENA_BYTES + GUARD] __attribute__((aligned(TC_ARENA_ALIGN)));
    *guarded = 1;
    return memory + GUARD;
}
