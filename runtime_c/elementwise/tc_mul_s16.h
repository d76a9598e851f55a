/* SPDX-License-Identifier: 0BSD */
/* Product of two int16 tensors.
 *
 *   y = clamp(requantize((x0 - x0_zero) * (x1 - x1_zero), mult, shift) + y_zero, y_min, y_max)
 *
 * The scaled product fits int32 with room for y_zero: the compiler bounds the factor by 1. Zero points are 0.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_MUL_S16_H
#define TC_MUL_S16_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t x0_zero, x1_zero;
    int32_t mult, shift, rounds;
    int32_t y_zero, y_min, y_max;
} tc_mul_s16_t;

static inline int16_t tc_mul_s16_element(const tc_mul_s16_t *p, int32_t x0, int32_t x1)
{
    const int32_t product = (x0 - p->x0_zero) * (x1 - p->x1_zero);
    const int32_t q = tc_requantize(product, p->mult, p->shift, p->rounds) + p->y_zero;
    return (int16_t)tc_clamp(q, p->y_min, p->y_max);
}

static void tc_mul_s16(const tc_mul_s16_t *p, const int16_t *x0, const int16_t *x1, int16_t *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int16_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int16_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *y++ = tc_mul_s16_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
