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

static inline void tc_signal_subtract(const tc_signal_subtraction_u32_t *p, uint32_t x, uint32_t rate, uint32_t rest, uint32_t before, uint32_t *y, uint32_t *after)
{
    const uint32_t up = x << p->smoothing_bits;
    const uint32_t mean = (uint32_t)(((uint64_t)up * rate + (uint64_t)before * rest) >> p->bits);
    const uint32_t taken = mean < up ? mean : up;
    const uint32_t left = (up - taken) >> p->smoothing_bits;
    const uint32_t least = (uint32_t)(((uint64_t)x * (uint32_t)p->least) >> p->bits);

    *after = p->clamps ? taken : mean;
    *y = left > least ? left : least;
}

static void tc_signal_subtraction_u32(const tc_signal_subtraction_u32_t *p, const uint32_t *x, const uint32_t *before, uint32_t *y, uint32_t *after)
{
    for (int32_t i = 0; i < p->channels; i++) {
        const int32_t odd = i & 1;
        const uint32_t rate = (uint32_t)(odd ? p->odd : p->even), rest = (uint32_t)(odd ? p->odd_rest : p->even_rest);
        tc_signal_subtract(p, x[i], rate, rest, before[i], y + i, after + i);
    }
}

#endif
