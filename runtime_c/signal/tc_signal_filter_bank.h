/* SPDX-License-Identifier: 0BSD */
/* Energies summed up to channels: with the bins of interval i, y[i - 1] = unweights of interval i - 1 and
 * weights of interval i times energies, modulo 2^64, as two words, the low one first. No weight is negative,
 * but for tc_signal_filter_bank_signed_u32.h.
 */
#ifndef TC_SIGNAL_FILTER_BANK_H
#define TC_SIGNAL_FILTER_BANK_H

#include "tc_products.h"

typedef struct {
    const int16_t *weights; /* for each bin of each interval in turn: its weight, its unweight */
    const uint16_t *bands; /* [channels + 1][2]: first bin, number of bins */
    int32_t channels;
} tc_signal_filter_bank_t;

/* A sum of 64 bits in two words, and a product more. */
typedef struct {
    uint32_t low, high;
} tc_signal_sum_t;

TC_INLINE void tc_signal_add(tc_signal_sum_t *sum, uint32_t x, uint32_t y)
{
#if TC_GNU && defined(__thumb2__)
    __asm__("umlal %0, %1, %2, %3" : "+r"(sum->low), "+r"(sum->high) : "r"(x), "r"(y));
#else
    const uint64_t whole = ((uint64_t)sum->high << 32 | sum->low) + tc_times_short(x, y);
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

/* What the intervals from the second on begin with: of the first the unweights alone. Returns their weights.
 */
static inline const int16_t *tc_signal_bank_begin(const tc_signal_filter_bank_t *p, const uint32_t *e,
                                                  uint32_t *y, tc_signal_bank_t *state)
{
    const uint32_t *bin = e + p->bands[0];
    const int16_t *w = p->weights, *const second = w + 2 * p->bands[1];

    state->y = y;
    state->last = p->bands + 2 * p->channels;
    state->carry.low = 0;
    state->carry.high = 0;
    for (; w < second; w += 2, bin++) {
        tc_signal_add(&state->carry, *bin, (uint16_t)w[1]);
    }
    return w;
}

/* Intervals from `band` on, whose weights begin at w. */
static inline void tc_signal_intervals_plain(const int16_t *w, const uint16_t *band, const uint32_t *e,
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
            const uint32_t energy = *bin;
            tc_signal_add(&sum, energy, (uint16_t)w[0]);
            tc_signal_add(&carry, energy, (uint16_t)w[1]);
        }
        *y++ = sum.low;
        *y++ = sum.high;
    }
}

#endif
