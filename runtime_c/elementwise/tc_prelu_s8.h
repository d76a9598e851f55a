/* SPDX-License-Identifier: 0BSD */
/* Parametric relu of an int8 tensor.
 *
 *   v = x - x_zero
 *   y = clamp(requantize(v, mult, shift) + y_zero, -128, 127)                                    where v >= 0
 *   y = clamp(requantize(v * (slope - slope_zero), low_mult, low_shift) + y_zero, -128, 127)     elsewhere
 *
 * What is scaled fits int32: the compiler bounds the factors. Elements pair as in tc_pairs.h. y may be x.
 * No scratch.
 */
#ifndef TC_PRELU_S8_H
#define TC_PRELU_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t x_zero, slope_zero;
    int32_t mult, shift, low_mult, low_shift, rounds;
    int32_t y_zero;
} tc_prelu_s8_t;

static inline int8_t tc_prelu_element(const tc_prelu_s8_t *p, int32_t x, int32_t slope)
{
    const int32_t v = x - p->x_zero;
    const int32_t q = v >= 0 ? tc_requantize(v, p->mult, p->shift, p->rounds)
                             : tc_requantize(v * (slope - p->slope_zero), p->low_mult, p->low_shift,
                                             p->rounds);
    return (int8_t)tc_clamp(q + p->y_zero, -128, 127);
}

static void tc_prelu_s8(const tc_prelu_s8_t *p, const int8_t *x, const int8_t *slope, int8_t *y)
{
    TC_EACH_PAIR(p, int8_t, x, slope, *y++ = tc_prelu_element(p, a, b))
}

#endif
