/* SPDX-License-Identifier: 0BSD */
/* tc_lut_s8.h with Helium (MVE): 16 bytes gathered from the table at a time. Same results; y may be x. */
#ifndef TC_LUT_S8_MVE_H
#define TC_LUT_S8_MVE_H

#include "tc_mve.h"

#if TC_MVE_ASM

static TC_NAKED void tc_lut_s8_mve(const void *lut TC_UNUSED, const void *x TC_UNUSED, void *y TC_UNUSED,
                                   int32_t n TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "wlstp.8 lr, r3, 2f\n"
        "1:\n"
        "vldrb.u8 q0, [r1], #16\n"
        "vldrb.u8 q1, [r0, q0]\n"
        "vstrb.8 q1, [r2], #16\n"
        "letp   lr, 1b\n"
        "2:\n"
        "pop    {r4, pc}\n");
}

#else

static void tc_lut_s8_mve(const void *lut, const void *x, void *y, int32_t n)
{
    const uint8_t *table = (const uint8_t *)lut;
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i = 0; i < n; i++) {
        out[i] = table[in[i]];
    }
}

#endif

#endif
