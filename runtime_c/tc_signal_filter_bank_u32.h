/* SPDX-License-Identifier: 0BSD */
/* Energies summed up to channels: with the bins of interval i, y[i - 1] = unweights of interval i - 1 and weights of interval
 * i times energies, modulo 2^64, as two words, the low one first.
 *
 * No weight is negative. y may not overlap e. No scratch.
 */
#ifndef TC_SIGNAL_FILTER_BANK_U32_H
#define TC_SIGNAL_FILTER_BANK_U32_H

#include "tc_signal_filter_bank.h"

static void tc_signal_filter_bank_u32(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    const int16_t *w = p->weights;
    const uint16_t *band = p->bands;
    uint64_t carry = 0;

    for (int32_t i = 0; i <= p->channels; i++, band += 2) {
        const uint32_t *bin = e + band[0], *end = bin + band[1];
        uint64_t sum = carry;
        carry = 0;
        for (; bin < end; bin++, w += 2) {
            const uint32_t both = tc_load_word(w), energy = *bin;
            sum += (uint64_t)energy * (both & 0xffff);
            carry += (uint64_t)energy * (both >> 16);
        }
        if (i > 0) {
            *y++ = (uint32_t)sum;
            *y++ = (uint32_t)(sum >> 32);
        }
    }
}

#endif
