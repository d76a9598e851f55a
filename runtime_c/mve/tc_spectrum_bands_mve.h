/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_bands.h with Helium, same results: sums of four products at a time, modulo 2^64, whatever their
 * order. */
#ifndef TC_SPECTRUM_BANDS_MVE_H
#define TC_SPECTRUM_BANDS_MVE_H

#include "tc_mve.h"
#include "tc_spectrum_bands.h"

#if TC_MVE_ASM

/* Of n numbers. */
static TC_NAKED void tc_mve_bands_sum(const uint32_t *x TC_UNUSED, const uint16_t *w TC_UNUSED,
                                      int32_t n TC_UNUSED, uint64_t *sums TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, r5, r6, lr}\n"
        "movs   r4, #0\n"
        "movs   r5, #0\n"
        "wlstp.32 lr, r2, 2f\n"
        "1:\n"
        "vldrw.u32 q0, [r0], #16\n"
        "vldrh.u32 q1, [r1], #8\n"
        "vmlaldava.u32 r4, r5, q0, q1\n"
        "letp   lr, 1b\n"
        "2:\n"
        "strd   r4, r5, [r3]\n"
        "pop    {r4, r5, r6, pc}\n");
}

/* Of n pairs of words: sums of the low ones and of the high ones. */
static TC_NAKED void tc_mve_bands_sums(const uint32_t *x TC_UNUSED, const uint16_t *w TC_UNUSED,
                                       int32_t n TC_UNUSED, uint64_t *sums TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r9, lr}\n"
        "movs   r4, #0\n"
        "movs   r5, #0\n"
        "movs   r6, #0\n"
        "movs   r7, #0\n"
        "movs   r8, #0\n"
        "vidup.u32 q3, r8, #2\n"
        "add    r9, r0, #4\n"
        "wlstp.32 lr, r2, 2f\n"
        "1:\n"
        "vldrw.u32 q0, [r0, q3, uxtw #2]\n"
        "add    r0, #32\n"
        "vldrh.u32 q2, [r1], #8\n"
        "vldrw.u32 q1, [r9, q3, uxtw #2]\n"
        "vmlaldava.u32 r4, r5, q0, q2\n"
        "add    r9, #32\n"
        "vmlaldava.u32 r6, r7, q1, q2\n"
        "letp   lr, 1b\n"
        "2:\n"
        "strd   r4, r5, [r3]\n"
        "strd   r6, r7, [r3, #8]\n"
        "pop    {r4-r9, pc}\n");
}

#else

static inline void tc_mve_bands_sum(const uint32_t *x, const uint16_t *w, int32_t n, uint64_t *sums)
{
    sums[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        sums[0] += (uint64_t)x[i] * w[i];
    }
}

static inline void tc_mve_bands_sums(const uint32_t *x, const uint16_t *w, int32_t n, uint64_t *sums)
{
    sums[0] = 0;
    sums[1] = 0;
    for (int32_t i = 0; i < n; i++) {
        sums[0] += (uint64_t)x[2 * i] * w[i];
        sums[1] += (uint64_t)x[2 * i + 1] * w[i];
    }
}

#endif

TC_INLINE void tc_mve_bands(const tc_spectrum_bands_t *p, const uint32_t *x, int32_t wide, uint32_t *y)
{
    const uint16_t *w = p->weights, *span = p->spans;

    for (int32_t band = 0; band < p->bands; band++, span += 2, y += 2) {
        uint64_t sums[2], sum;
        if (wide) {
            tc_mve_bands_sums(x + 2 * span[0], w, span[1], sums);
            sum = (sums[0] >> 16) + (sums[1] << 16);
        } else {
            tc_mve_bands_sum(x + span[0], w, span[1], sums);
            sum = sums[0];
        }
        w += span[1];
        y[0] = (uint32_t)sum;
        y[1] = (uint32_t)(sum >> 32);
    }
}

static TC_UNUSED void tc_spectrum_bands_u32_mve(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    tc_mve_bands(p, x, 0, y);
}

static TC_UNUSED void tc_spectrum_bands_u64_mve(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    tc_mve_bands(p, x, 1, y);
}

#endif
