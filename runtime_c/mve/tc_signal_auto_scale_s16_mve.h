/* SPDX-License-Identifier: 0BSD */
/* tc_signal_auto_scale_s16 with Helium, eight samples at a time. Same results; y may be x. No scratch.
 *
 * Where the largest magnitude is 32768, samples are gone through one by one.
 */
#ifndef TC_SIGNAL_AUTO_SCALE_S16_MVE_H
#define TC_SIGNAL_AUTO_SCALE_S16_MVE_H

#include "tc_mve.h"
#include "tc_signal_most.h"

#if TC_MVE_ASM

/* The largest |x|, at most 32768. */
static TC_NAKED int32_t tc_mve_most(const int16_t *x TC_UNUSED, int32_t n TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r3, lr}\n"
        "movs   r2, #0\n"
        "wlstp.16 lr, r1, 2f\n"
        "1:\n"
        "vldrh.u16 q0, [r0], #16\n"
        "vmaxav.s16 r2, q0\n"
        "letp   lr, 1b\n"
        "2:\n"
        "mov    r0, r2\n"
        "pop    {r3, pc}\n");
}

static TC_NAKED void tc_mve_shifted(const int16_t *x TC_UNUSED, int32_t n TC_UNUSED, int32_t s TC_UNUSED,
                                    int16_t *y TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "wlstp.16 lr, r1, 2f\n"
        "1:\n"
        "vldrh.u16 q0, [r0], #16\n"
        "vshl.s16 q0, r2\n"
        "vstrh.16 q0, [r3], #16\n"
        "letp   lr, 1b\n"
        "2:\n"
        "pop    {r4, pc}\n");
}

#else

static inline int32_t tc_mve_most(const int16_t *x, int32_t n)
{
    int32_t most = 0;

    for (int32_t i = 0; i < n; i++) {
        const int32_t v = x[i] < 0 ? -x[i] : x[i];
        most = v > most ? v : most;
    }
    return most;
}

static inline void tc_mve_shifted(const int16_t *x, int32_t n, int32_t s, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = (int16_t)(uint16_t)((uint32_t)x[i] << s);
    }
}

#endif

static void tc_signal_auto_scale_s16_mve(const int16_t *x, int32_t n, int32_t micro, int16_t *y,
                                         int32_t *scale)
{
    const int32_t most = tc_mve_most(x, n);
    const int32_t s = most == 32768 ? tc_signal_scale_s16(x, n, micro)
                      : most > 0 || micro ? 15 - tc_signal_bits((uint32_t)most) : 0;

    tc_mve_shifted(x, n, s, y);
    *scale = s;
}

#endif
