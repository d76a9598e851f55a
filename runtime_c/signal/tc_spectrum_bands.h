/* SPDX-License-Identifier: 0BSD */
/* Bands of a spectrum: sums of its bins times weights. y [bands]: pairs of words, the low one first; it may
 * not overlap x. No scratch.
 */
#ifndef TC_SPECTRUM_BANDS_H
#define TC_SPECTRUM_BANDS_H

#include "tc_dsp.h"
#include "tc_products.h"

typedef struct {
    const uint16_t *weights; /* band after band */
    const uint16_t *spans; /* [bands][2]: the first bin, how many */
    int32_t bands;
} tc_spectrum_bands_t;

/* Of magnitudes, which are words. */
static TC_UNUSED void tc_spectrum_bands_u32(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    const uint16_t *w = p->weights, *span = p->spans;

    for (int32_t band = 0; band < p->bands; band++, span += 2, y += 2) {
        const uint32_t *bin = x + span[0];
        const uint16_t *const end = w + span[1];
        uint64_t sum = 0;
        for (; w < end; w++, bin++) {
            sum += tc_times_short(*bin, *w);
        }
        y[0] = (uint32_t)sum;
        y[1] = (uint32_t)(sum >> 32);
    }
}

#if TC_DSP_ASM

/* Bands of which spans has first bin and number of bins, until end. One bin, two and then fours of them.
 *
 * r0: where the weights of fours end, r3: bin, r4, r5: sum of lower words, r6, r7: of upper ones; [sp]: x,
 * [sp, #4]: y, [sp, #8]: end. */
static TC_NAKED void tc_bands_wide(const uint32_t *x TC_UNUSED, const uint16_t *w TC_UNUSED,
                                   const uint16_t *spans TC_UNUSED, uint32_t *y TC_UNUSED,
                                   const uint16_t *end TC_UNUSED)
{
#define TC_BANDS_TWO                                                               \
    "ldm    r3!, {r8, r9, r10, r11}\n"                                             \
    "ldrh   r12, [r1], #2\n"                                                       \
    "ldrh   lr, [r1], #2\n"                                                        \
    "umlal  r4, r5, r8, r12\n"                                                     \
    "umlal  r6, r7, r9, r12\n"                                                     \
    "umlal  r4, r5, r10, lr\n"                                                     \
    "umlal  r6, r7, r11, lr\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "ldr    r12, [sp, #36]\n"
        "push   {r0, r3, r12}\n"
        ".p2align 2\n"
        "1:\n" /* a band */
        "ldrh   r8, [r2], #2\n"
        "ldrh   r9, [r2], #2\n"
        "ldr    r3, [sp]\n"
        "movs   r4, #0\n"
        "movs   r5, #0\n"
        "movs   r6, #0\n"
        "movs   r7, #0\n"
        "add    r3, r3, r8, lsl #3\n"
        "bic    r0, r9, #3\n"
        "lsls   r9, r9, #31\n" /* C: bit 1, not Z: bit 0 */
        "beq    2f\n"
        "ldrd   r8, r9, [r3], #8\n"
        "ldrh   r12, [r1], #2\n"
        "umull  r4, r5, r8, r12\n"
        "umull  r6, r7, r9, r12\n"
        "2:\n"
        "bcc    3f\n"
        TC_BANDS_TWO
        "3:\n"
        "adds   r0, r1, r0, lsl #1\n"
        "cmp    r1, r0\n"
        "beq    5f\n"
        ".p2align 2\n"
        "4:\n"
        TC_BANDS_TWO
        TC_BANDS_TWO
        "cmp    r1, r0\n"
        "bne    4b\n"
        "5:\n"
        "lsr    r4, r4, #16\n"
        "ldr    r8, [sp, #4]\n"
        "orr    r4, r4, r5, lsl #16\n"
        "ldr    r9, [sp, #8]\n"
        "lsr    r5, r5, #16\n"
        "lsl    r7, r7, #16\n"
        "orr    r7, r7, r6, lsr #16\n"
        "adds   r4, r4, r6, lsl #16\n"
        "adc    r5, r5, r7\n"
        "strd   r4, r5, [r8], #8\n"
        "str    r8, [sp, #4]\n"
        "cmp    r2, r9\n"
        "bne    1b\n"
        "add    sp, #12\n"
        "pop    {r4-r11, pc}\n");
#undef TC_BANDS_TWO
}

#else

static inline void tc_bands_wide(const uint32_t *x, const uint16_t *w, const uint16_t *spans, uint32_t *y,
                                 const uint16_t *end)
{
    for (; spans < end; spans += 2, y += 2) {
        const uint32_t *bin = x + 2 * spans[0];
        const uint16_t *const last = w + spans[1];
        uint64_t low = 0, high = 0;
        for (; w < last; w++, bin += 2) {
            low += tc_times_short(bin[0], *w);
            high += tc_times_short(bin[1], *w);
        }
        low = (low >> 16) + (high << 16);
        y[0] = (uint32_t)low;
        y[1] = (uint32_t)(low >> 32);
    }
}

#endif

/* Of powers, which are pairs of words: of lower words, and of upper words, which count 2^32, both over 2^16.
 * Modulo 2^64. */
static TC_UNUSED void tc_spectrum_bands_u64(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    tc_bands_wide(x, p->weights, p->spans, y, p->spans + 2 * p->bands);
}

#endif
