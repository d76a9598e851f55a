/* SPDX-License-Identifier: 0BSD */
/* Energies summed up to channels: with the bins of interval i, y[i - 1] = unweights of interval i - 1 and
 * weights of interval i times energies, modulo 2^64, as two words, the low one first.
 *
 * No weight is negative. y may not overlap e. No scratch.
 */
#ifndef TC_SIGNAL_FILTER_BANK_U32_H
#define TC_SIGNAL_FILTER_BANK_U32_H

#include "tc_signal_filter_bank.h"

/* A sum of 64 bits in two words, and a product more. */
typedef struct {
    uint32_t low, high;
} tc_signal_sum_t;

TC_INLINE void tc_signal_add(tc_signal_sum_t *sum, uint32_t x, uint32_t y)
{
#if TC_GNU && defined(__thumb2__)
    __asm__("umlal %0, %1, %2, %3" : "+r"(sum->low), "+r"(sum->high) : "r"(x), "r"(y));
#else
    const uint64_t whole = ((uint64_t)sum->high << 32 | sum->low) + (uint64_t)x * y;
    sum->low = (uint32_t)whole;
    sum->high = (uint32_t)(whole >> 32);
#endif
}

/* Where channels go, where the intervals end, and what the interval before has left. */
typedef struct {
    uint32_t *y;
    const uint16_t *last;
    tc_signal_sum_t carry;
} tc_signal_bank_t;

#if TC_GNU && defined(__thumb2__)

/* Intervals from `band` on, whose weights begin at w. Two bins at a time, an odd one before them.
 *
 * r3: y, r4 and r5: the sum, r6 and r7: the carry, r8: bins, r9: pairs of them that are left, [sp]: last. */
static TC_NAKED void tc_signal_intervals(const int16_t *w TC_UNUSED, const uint16_t *band TC_UNUSED,
                                         const uint32_t *e TC_UNUSED,
                                         const tc_signal_bank_t *state TC_UNUSED)
{
#define TC_SIGNAL_BIN(energy)                                                      \
    "ldr    r11, [r0], #4\n"                                                       \
    "uxth   lr, r11\n"                                                             \
    "lsr    r11, r11, #16\n"                                                       \
    "umlal  r4, r5, " energy ", lr\n"                                              \
    "umlal  r6, r7, " energy ", r11\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "ldm    r3, {r3, r5, r6, r7}\n"
        "push   {r5}\n"
        ".p2align 2\n"
        "1:\n"
        "ldrh   r8, [r1], #2\n"
        "ldrh   r9, [r1], #2\n"
        "add    r8, r2, r8, lsl #2\n"
        "mov    r4, r6\n"
        "mov    r5, r7\n"
        "mov    r6, #0\n"
        "mov    r7, #0\n"
        "tst    r9, #1\n"
        "beq    2f\n"
        "ldr    r10, [r8], #4\n"
        TC_SIGNAL_BIN("r10")
        "2:\n"
        "lsrs   r9, r9, #1\n"
        "beq    4f\n"
        ".p2align 2\n"
        "3:\n"
        "ldm    r8!, {r10, r12}\n"
        TC_SIGNAL_BIN("r10")
        TC_SIGNAL_BIN("r12")
        "subs   r9, r9, #1\n"
        "bne    3b\n"
        "4:\n"
        "strd   r4, r5, [r3], #8\n"
        "ldr    r10, [sp]\n"
        "cmp    r1, r10\n"
        "bls    1b\n"
        "add    sp, #4\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SIGNAL_BIN
}

#else

static inline void tc_signal_intervals(const int16_t *w, const uint16_t *band, const uint32_t *e,
                                       const tc_signal_bank_t *state)
{
    uint32_t *y = state->y;
    tc_signal_sum_t sum, carry;

    carry.low = state->carry.low;
    carry.high = state->carry.high;
    for (; band <= state->last; band += 2) {
        const uint32_t *bin = e + band[0], *const end = bin + band[1];
        sum.low = carry.low; /* not by a struct: without optimization that is a call of memcpy */
        sum.high = carry.high;
        carry.low = 0;
        carry.high = 0;
        for (; bin < end; bin++, w += 2) {
            const uint32_t both = tc_load_word(w), energy = *bin;
            tc_signal_add(&sum, energy, both & 0xffff);
            tc_signal_add(&carry, energy, both >> 16);
        }
        *y++ = sum.low;
        *y++ = sum.high;
    }
}

#endif

static void tc_signal_filter_bank_u32(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    const uint32_t *bin = e + p->bands[0];
    const int16_t *w = p->weights, *const second = w + 2 * p->bands[1];
    tc_signal_bank_t state;

    state.y = y;
    state.last = p->bands + 2 * p->channels;
    state.carry.low = 0;
    state.carry.high = 0;
    for (; w < second; w += 2, bin++) { /* of the first interval the unweights alone */
        tc_signal_add(&state.carry, *bin, tc_load_word(w) >> 16);
    }
    tc_signal_intervals(w, p->bands + 2, e, &state);
}

#endif
