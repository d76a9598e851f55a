/* SPDX-License-Identifier: 0BSD */
/* re^2 + im^2 of the bins [start, end) of x, int32 pairs -> y [end - start] uint64, which may be x. */
#ifndef TC_SPECTRUM_POWER_H
#define TC_SPECTRUM_POWER_H

#include "tc_products.h"

#if TC_GNU && defined(__thumb2__)

/* Of a multiple of four bins, at least four. */
static TC_NAKED void tc_powers_fours(const int32_t *x TC_UNUSED, const int32_t *end TC_UNUSED,
                                     uint32_t *y TC_UNUSED)
{
#define TC_POWERS_TWO                                                              \
    "ldm    r0!, {r3-r6}\n"                                                        \
    "smull  r7, r8, r3, r3\n"                                                      \
    "smull  r9, r10, r5, r5\n"                                                     \
    "smlal  r7, r8, r4, r4\n"                                                      \
    "smlal  r9, r10, r6, r6\n"                                                     \
    "stm    r2!, {r7-r10}\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        ".p2align 2\n"
        "1:\n"
        TC_POWERS_TWO
        TC_POWERS_TWO
        "cmp    r0, r1\n"
        "bne    1b\n"
        "pop    {r4-r10, pc}\n");
#undef TC_POWERS_TWO
}

#define TC_POWERS_FOURS(bins) ((bins) & ~3)

#else

#define TC_POWERS_FOURS(bins) 0

#endif

static void tc_spectrum_power(const int32_t *x, int32_t start, int32_t end, uint32_t *y)
{
    const int32_t *const last = x + 2 * end;
    const int32_t fours = TC_POWERS_FOURS(end - start);

    x += 2 * start;
#if TC_GNU && defined(__thumb2__)
    if (fours > 0) {
        tc_powers_fours(x, x + 2 * fours, y);
    }
#endif
    for (x += 2 * fours, y += 2 * fours; x < last; x += 2, y += 2) {
        const uint64_t power = tc_square(x[0]) + tc_square(x[1]);
        y[0] = (uint32_t)power;
        y[1] = (uint32_t)(power >> 32);
    }
}

#undef TC_POWERS_FOURS

#endif
