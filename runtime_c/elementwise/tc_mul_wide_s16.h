/* SPDX-License-Identifier: 0BSD */
/* Product of two int16 tensors.
 *
 *   y = clamp(floor((x0 - x0_zero) * (x1 - x1_zero) * mult / 2^total + 1/2) + y_zero, y_min, y_max)
 *
 * Any zero points. mult has 24 bits and total lies in [24, 62], so the product fits int64.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_MUL_WIDE_S16_H
#define TC_MUL_WIDE_S16_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t x0_zero, x1_zero;
    int32_t mult, total;
    int32_t y_zero, y_min, y_max;
} tc_mul_wide_s16_t;

static inline int16_t tc_mul_wide_element(const tc_mul_wide_s16_t *p, int32_t x0, int32_t x1)
{
    const int64_t product = (int64_t)(x0 - p->x0_zero) * (x1 - p->x1_zero) * p->mult;
    const int64_t q = ((product + ((int64_t)1 << (p->total - 1))) >> p->total) + p->y_zero;
    return (int16_t)(q < p->y_min ? p->y_min : q > p->y_max ? p->y_max : q);
}

static void tc_mul_wide_s16(const tc_mul_wide_s16_t *p, const int16_t *x0, const int16_t *x1, int16_t *y)
{
    TC_EACH_PAIR(p, int16_t, x0, x1, *y++ = tc_mul_wide_element(p, a, b))
}

#endif
