/* SPDX-License-Identifier: 0BSD */
/* Each channel less its noise, a running mean: tinyc/ops/signal_spectral_subtraction.py has the formula.
 *
 * y may be x, after may be before. No scratch.
 */
#ifndef TC_SIGNAL_SUBTRACTION_U32_H
#define TC_SIGNAL_SUBTRACTION_U32_H

#include "tc_math.h"

typedef struct {
    int32_t even, odd, even_rest, odd_rest, least, smoothing_bits, bits, clamps, channels;
} tc_signal_subtraction_u32_t;

/* The new estimate of a channel x with the estimate `before`; what is left of x goes to y. */
static inline uint32_t tc_signal_subtract(uint32_t x, uint32_t rate, uint32_t rest, uint32_t before,
                                          const tc_signal_subtraction_u32_t *p, uint32_t *y)
{
    const uint32_t up = x << p->smoothing_bits;
    const uint32_t mean = (uint32_t)(((uint64_t)up * rate + (uint64_t)before * rest) >> p->bits);
    const uint32_t taken = mean < up ? mean : up;
    const uint32_t left = (up - taken) >> p->smoothing_bits;
    const uint32_t least = (uint32_t)(((uint64_t)x * (uint32_t)p->least) >> p->bits);

    *y = left > least ? left : least;
    return p->clamps ? taken : mean;
}

static void tc_signal_subtraction_u32(const tc_signal_subtraction_u32_t *p, const uint32_t *x,
                                      const uint32_t *before, uint32_t *y, uint32_t *after)
{
    const uint32_t even = (uint32_t)p->even, even_rest = (uint32_t)p->even_rest;
    const uint32_t odd = (uint32_t)p->odd, odd_rest = (uint32_t)p->odd_rest;
    const int32_t channels = p->channels;
    int32_t i = 0;

    for (; i + 1 < channels; i += 2) {
        after[i] = tc_signal_subtract(x[i], even, even_rest, before[i], p, y + i);
        after[i + 1] = tc_signal_subtract(x[i + 1], odd, odd_rest, before[i + 1], p, y + i + 1);
    }
    if (i < channels) {
        after[i] = tc_signal_subtract(x[i], even, even_rest, before[i], p, y + i);
    }
}

#endif
