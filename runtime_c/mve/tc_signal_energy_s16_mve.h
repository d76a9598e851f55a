/* SPDX-License-Identifier: 0BSD */
/* tc_signal_energy_s16 with Helium, four bins at a time. Same results; y may be x. No scratch. */
#ifndef TC_SIGNAL_ENERGY_S16_MVE_H
#define TC_SIGNAL_ENERGY_S16_MVE_H

#include "tc_mve.h"

#if TC_MVE_ASM

static TC_NAKED void tc_mve_energies(const int16_t *x TC_UNUSED, int32_t bins TC_UNUSED,
                                     uint32_t *y TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "wlstp.32 lr, r1, 2f\n"
        "1:\n"
        "vldrw.u32 q0, [r0], #16\n"
        "vmullb.s16 q1, q0, q0\n"
        "vmullt.s16 q0, q0, q0\n"
        "vadd.i32 q0, q0, q1\n"
        "vstrw.32 q0, [r2], #16\n"
        "letp   lr, 1b\n"
        "2:\n"
        "pop    {r4, pc}\n");
}

#else

static inline void tc_mve_energies(const int16_t *x, int32_t bins, uint32_t *y)
{
    for (int32_t i = 0; i < bins; i++) {
        const int32_t pair = (int32_t)tc_load_word(x + 2 * i);
        const int32_t re = tc_lo16(pair), im = tc_hi16(pair);
        tc_store_word(y + i, (uint32_t)(re * re) + (uint32_t)(im * im));
    }
}

#endif

static void tc_signal_energy_s16_mve(const int16_t *x, int32_t bins, int32_t start, int32_t end, uint32_t *y)
{
    for (int32_t i = 0; i < start; i++) {
        tc_store_word(y + i, 0);
    }
    tc_mve_energies(x + 2 * start, end - start, y + start);
    for (int32_t i = end; i < bins; i++) {
        tc_store_word(y + i, 0);
    }
}

#endif
