/* SPDX-License-Identifier: 0BSD */
/* Product of two int8 tensors, scaled in float32: only one multiplication, no libm.
 *
 *   y = clamp(round((x0 - x0_zero) * (x1 - x1_zero) * factor) + y_zero, y_min, y_max), halves to even
 *
 * factor < 2^8, so the scaled product is below 2^24 and its fraction is exact.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_MUL_F32_S8_H
#define TC_MUL_F32_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
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
    TC_EACH_PAIR(p, int8_t, x0, x1, *y++ = tc_mul_f32_element(p, a, b))
}

#endif
