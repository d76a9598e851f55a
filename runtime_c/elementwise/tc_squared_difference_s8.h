/* SPDX-License-Identifier: 0BSD */
/* Square of the difference of two int8 tensors.
 *
 *   u<k> = requantize((x<k> - x<k>_zero) * 2^7, mult<k>, shift<k>), a factor of at most 1/2
 *   y = clamp(requantize((u0 - u1)^2, mult, shift) + y_zero, y_min, y_max), a factor below 1
 *
 * |u0 - u1| <= 2 * 255 * 64, so the square fits int32.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_SQUARED_DIFFERENCE_S8_H
#define TC_SQUARED_DIFFERENCE_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t x0_zero, x1_zero;
    int32_t mult0, shift0, mult1, shift1;
    int32_t mult, shift, rounds;
    int32_t y_zero, y_min, y_max;
} tc_squared_difference_s8_t;

static inline int8_t tc_squared_difference_element(const tc_squared_difference_s8_t *p, int32_t x0,
                                                   int32_t x1)
{
    const int32_t u0 = tc_requantize((x0 - p->x0_zero) * 128, p->mult0, p->shift0, p->rounds);
    const int32_t u1 = tc_requantize((x1 - p->x1_zero) * 128, p->mult1, p->shift1, p->rounds);
    const int32_t q = tc_requantize((u0 - u1) * (u0 - u1), p->mult, p->shift, p->rounds) + p->y_zero;
    return (int8_t)tc_clamp(q, p->y_min, p->y_max);
}

static void tc_squared_difference_s8(const tc_squared_difference_s8_t *p, const int8_t *x0, const int8_t *x1,
                                     int8_t *y)
{
    TC_EACH_PAIR(p, int8_t, x0, x1, *y++ = tc_squared_difference_element(p, a, b))
}

#endif
