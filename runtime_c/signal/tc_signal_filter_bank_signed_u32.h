/* SPDX-License-Identifier: 0BSD */
/* tc_signal_filter_bank_u32 with weights that may be negative. y may not overlap e. No scratch. */
#ifndef TC_SIGNAL_FILTER_BANK_SIGNED_U32_H
#define TC_SIGNAL_FILTER_BANK_SIGNED_U32_H

#include "tc_signal_filter_bank.h"

static void tc_signal_filter_bank_signed_u32(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    const int16_t *w = p->weights;
    const uint16_t *band = p->bands;
    uint64_t carry = 0;

    for (int32_t i = 0; i <= p->channels; i++, band += 2) {
        const uint32_t *bin = e + band[0], *end = bin + band[1];
        uint64_t sum = carry;
        carry = 0;
        for (; bin < end; bin++, w += 2) {
            sum += (uint64_t)((int64_t)w[0] * (int64_t)*bin);
            carry += (uint64_t)((int64_t)w[1] * (int64_t)*bin);
        }
        if (i > 0) {
            *y++ = (uint32_t)sum;
            *y++ = (uint32_t)(sum >> 32);
        }
    }
}

#endif
