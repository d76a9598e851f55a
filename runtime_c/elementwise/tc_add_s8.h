/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int8 tensors, both brought to a common scale with 20 more bits first.
 *
 *   t<k> = requantize((x<k> - x<k>_zero) << 20, x<k>_mult, x<k>_shift)
 *   y    = clamp(requantize(t0 + sign * t1, mult, shift) + y_zero, y_min, y_max)
 *
 * All shifts are <= 0 (to the right). sign is 1 (sum) or -1 (difference). Zero points are subtracted
 * from the inputs and added to the output.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_ADD_S8_H
#define TC_ADD_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t x0_zero, x0_mult, x0_shift;
    int32_t x1_zero, x1_mult, x1_shift;
    int32_t sign, mult, shift, rounds;
    int32_t y_zero, y_min, y_max;
} tc_add_s8_t;

static inline int8_t tc_add_element(const tc_add_s8_t *p, int32_t x0, int32_t x1)
{
    const int32_t t0 = tc_requantize((x0 - p->x0_zero) * (1 << 20), p->x0_mult, p->x0_shift, p->rounds);
    const int32_t t1 = tc_requantize((x1 - p->x1_zero) * (1 << 20), p->x1_mult, p->x1_shift, p->rounds);
    const int32_t sum = tc_requantize(t0 + p->sign * t1, p->mult, p->shift, p->rounds) + p->y_zero;
    return (int8_t)tc_clamp(sum, p->y_min, p->y_max);
}

static void tc_add_s8(const tc_add_s8_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *y++ = tc_add_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
