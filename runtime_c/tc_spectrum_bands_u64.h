/* SPDX-License-Identifier: 0BSD */
/* Sums of powers times weights: of lower words, and of upper words, which count 2^32, both over 2^16. Modulo
 * 2^64.
 *
 * x, y: pairs of words, the low one first. y may not overlap x. No scratch.
 */
#ifndef TC_SPECTRUM_BANDS_U64_H
#define TC_SPECTRUM_BANDS_U64_H

#include "tc_dsp.h"
#include "tc_spectrum_bands.h"

/* Products of lower and of upper words are added up; weights until end, a multiple of 4. */
typedef struct {
    uint64_t low, high;
} tc_bands_sums_t;

#if TC_DSP_ASM

static TC_NAKED void tc_bands_fours(const uint32_t *bin TC_UNUSED, const uint16_t *w TC_UNUSED,
                                    const uint16_t *end TC_UNUSED, tc_bands_sums_t *sums TC_UNUSED)
{
#define TC_BANDS_TWO                                                               \
    "ldm    r0!, {r8, r9, r10, r11}\n"                                             \
    "ldrh   r12, [r1], #2\n"                                                       \
    "ldrh   lr, [r1], #2\n"                                                        \
    "umlal  r4, r5, r8, r12\n"                                                     \
    "umlal  r6, r7, r9, r12\n"                                                     \
    "umlal  r4, r5, r10, lr\n"                                                     \
    "umlal  r6, r7, r11, lr\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "ldm    r3, {r4-r7}\n"
        ".p2align 2\n"
        "1:\n"
        TC_BANDS_TWO
        TC_BANDS_TWO
        "cmp    r1, r2\n"
        "bne    1b\n"
        "stm    r3, {r4-r7}\n"
        "pop    {r4-r11, pc}\n");
#undef TC_BANDS_TWO
}

#else

static inline void tc_bands_fours(const uint32_t *bin, const uint16_t *w, const uint16_t *end,
                                  tc_bands_sums_t *sums)
{
    for (; w < end; w++, bin += 2) {
        sums->low += (uint64_t)bin[0] * *w;
        sums->high += (uint64_t)bin[1] * *w;
    }
}

#endif

/* Of n bins. */
static inline uint64_t tc_bands_sum(const uint32_t *bin, const uint16_t *w, int32_t n)
{
    const int32_t fours = n & ~3;
    tc_bands_sums_t sums = {0, 0};

    if (fours > 0) {
        tc_bands_fours(bin, w, w + fours, &sums);
    }
    for (int32_t i = fours; i < n; i++) {
        sums.low += (uint64_t)bin[2 * i] * w[i];
        sums.high += (uint64_t)bin[2 * i + 1] * w[i];
    }
    return (sums.low >> 16) + (sums.high << 16);
}

static void tc_spectrum_bands_u64(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    const uint16_t *w = p->weights, *span = p->spans;

    for (int32_t band = 0; band < p->bands; band++, span += 2, y += 2) {
        const uint64_t sum = tc_bands_sum(x + 2 * span[0], w, span[1]);
        w += span[1];
        y[0] = (uint32_t)sum;
        y[1] = (uint32_t)(sum >> 32);
    }
}

#endif
