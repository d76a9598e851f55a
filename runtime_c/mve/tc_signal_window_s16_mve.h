/* SPDX-License-Identifier: 0BSD */
/* tc_signal_window_s16 with Helium, eight samples at a time: n, first, begin and skip are even, for the
 * products of a last odd sample would be written by half. Same results, y may be x likewise. */
#ifndef TC_SIGNAL_WINDOW_S16_MVE_H
#define TC_SIGNAL_WINDOW_S16_MVE_H

#include "tc_mve.h"
#include "tc_signal_window_s16.h"

#if TC_MVE_ASM

/* of: number of samples, and minus the shift. narrow: VMOVN or VQMOVN. */
#define TC_MVE_WINDOW(narrow)                                       \
    ".syntax unified\n"                                             \
    "push   {r4, lr}\n"                                             \
    "ldrd   r4, r3, [r3]\n"                                         \
    "wlstp.16 lr, r4, 2f\n"                                         \
    "1:\n"                                                          \
    "vldrh.u16 q0, [r0], #16\n"                                     \
    "vldrh.u16 q1, [r1], #16\n"                                     \
    "vmullb.s16 q2, q0, q1\n"                                       \
    "vmullt.s16 q0, q0, q1\n"                                       \
    "vshl.s32 q2, r3\n"                                             \
    "vshl.s32 q0, r3\n"                                             \
    narrow                                                          \
    "vstrh.16 q1, [r2], #16\n"                                      \
    "letp   lr, 1b\n"                                               \
    "2:\n"                                                          \
    "pop    {r4, pc}\n"

static TC_NAKED void tc_mve_signal_wraps(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                         int16_t *y TC_UNUSED, const int32_t *of TC_UNUSED)
{
    __asm__ volatile(TC_MVE_WINDOW("vmovnb.i32 q1, q2\n"
                                   "vmovnt.i32 q1, q0\n"));
}

static TC_NAKED void tc_mve_signal_limits(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                          int16_t *y TC_UNUSED, const int32_t *of TC_UNUSED)
{
    __asm__ volatile(TC_MVE_WINDOW("vqmovnb.s32 q1, q2\n"
                                   "vqmovnt.s32 q1, q0\n"));
}

#undef TC_MVE_WINDOW

static inline void tc_mve_signal_window(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                        int32_t wraps, int16_t *y)
{
    int32_t of[2];

    of[0] = n;
    of[1] = -shift;
    if (wraps) {
        tc_mve_signal_wraps(x, w, y, of);
    } else {
        tc_mve_signal_limits(x, w, y, of);
    }
}

#else

static inline void tc_mve_signal_window(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                        int32_t wraps, int16_t *y)
{
    tc_signal_window_part_s16(x, w, n, shift, wraps, y);
}

#endif

static void tc_signal_window_s16_mve(const tc_signal_window_s16_t *p, const int16_t *x, const int16_t *held,
                                     int16_t *y)
{
    tc_signal_window_lines(p, x, held, y, tc_mve_signal_window);
}

#endif
