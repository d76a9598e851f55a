/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int16 tensors, rounded to nearest, halves to even.
 *
 *   y = clamp(round((a * x0 + b * x1 + c) / 2^shift) + y_zero, y_min, y_max)
 *
 * The zero points of the inputs are in c, for a difference b is negative. shift in [1, 60]; a, b below
 * 2^31, the sum fits int64. c [1].
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_ADD_EVEN_S16_H
#define TC_ADD_EVEN_S16_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t a, b, shift;
    const int64_t *c;
    int32_t y_zero, y_min, y_max;
} tc_add_even_s16_t;

static void tc_add_even_s16(const tc_add_even_s16_t *p, const int16_t *x0, const int16_t *x1, int16_t *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int16_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int16_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    const int64_t acc = (int64_t)p->a * *a + (int64_t)p->b * *b + *p->c;
                    const int64_t half = ((int64_t)1 << (p->shift - 1)) - 1 + ((acc >> p->shift) & 1);
                    *y++ = (int16_t)tc_clamp((int32_t)((acc + half) >> p->shift) + p->y_zero, p->y_min,
                                             p->y_max);
                }
            }
        }
    }
}

#endif
