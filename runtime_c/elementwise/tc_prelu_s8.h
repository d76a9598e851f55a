/* SPDX-License-Identifier: 0BSD */
/* Parametric relu of an int8 tensor.
 *
 *   v = x - x_zero
 *   y = clamp(requantize(v, mult, shift) + y_zero, -128, 127)                                    where v >= 0
 *   y = clamp(requantize(v * (slope - slope_zero), low_mult, low_shift) + y_zero, -128, 127)     elsewhere
 *
 * What is scaled fits int32: the compiler bounds the factors. Loops n0..n3 run over y front to back, n3
 * innermost; a step of loop k moves a<k> elements in x and b<k> in slope, 0 where that repeats. y may be x.
 * No scratch.
 */
#ifndef TC_PRELU_S8_H
#define TC_PRELU_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
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
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int8_t *a = x + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = slope + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *y++ = tc_prelu_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
