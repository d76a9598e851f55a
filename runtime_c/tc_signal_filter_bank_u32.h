/* SPDX-License-Identifier: 0BSD */
/* Energies summed up to channels: with the bins of interval i, y[i - 1] = unweights of interval i - 1 and weights of interval
 * i times energies, modulo 2^64, as two words, the low one first.
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

static void tc_signal_filter_bank_u32(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    const int16_t *w = p->weights;
    const uint16_t *band = p->bands, *const last = band + 2 * p->channels;
    tc_signal_sum_t sum, carry;

    carry.low = 0;
    carry.high = 0;
    for (; band <= last; band += 2) {
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
        if (band != p->bands) {
            *y++ = sum.low;
            *y++ = sum.high;
        }
    }
}

#endif
