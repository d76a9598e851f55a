/* SPDX-License-Identifier: 0BSD */
/* Product of two int8 tensors, scaled in float32: only one multiplication, no libm.
 *
 *   y = clamp(round((x0 - x0_zero) * (x1 - x1_zero) * factor) + y_zero, y_min, y_max), halves to even
 *
 * factor < 2^8, so the scaled product is below 2^24 and its fraction is exact.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_MUL_F32_S8_H
#define TC_MUL_F32_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t x0_zero, x1_zero;
    float factor;
    int32_t y_zero, y_min, y_max;
} tc_mul_f32_s8_t;

static inline int8_t tc_mul_f32_element(const tc_mul_f32_s8_t *p, int32_t x0, int32_t x1)
{
    const float v = (float)((x0 - p->x0_zero) * (x1 - p->x1_zero)) * p->factor;
    const int32_t whole = (int32_t)v;
    const float rest = v - (float)whole;
    const float half = whole & 1 ? 0.5f : 0.50000006f; /* an even number keeps the tie */
    const int32_t q = whole + (rest >= half) - (rest <= -half);
    return (int8_t)tc_clamp(q + p->y_zero, p->y_min, p->y_max);
}

static void tc_mul_f32_s8(const tc_mul_f32_s8_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *y++ = tc_mul_f32_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
