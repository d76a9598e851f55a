/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int16 tensors, rounded to nearest, halves to even.
 *
 *   y = clamp(round((a * x0 + b * x1 + c) / 2^shift) + y_zero, y_min, y_max)
 *
 * The zero points of the inputs are in c, for a difference b is negative. shift in [1, 60]; a, b below
 * 2^31, the sum fits int64. c [1].
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_ADD_EVEN_S16_H
#define TC_ADD_EVEN_S16_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t a, b, shift;
    const int64_t *c;
    int32_t y_zero, y_min, y_max;
} tc_add_even_s16_t;

static void tc_add_even_s16(const tc_add_even_s16_t *p, const int16_t *x0, const int16_t *x1, int16_t *y)
{
    TC_EACH_PAIR(p, int16_t, x0, x1, {
        const int64_t acc = (int64_t)p->a * a + (int64_t)p->b * b + *p->c;
        const int64_t half = ((int64_t)1 << (p->shift - 1)) - 1 + ((acc >> p->shift) & 1);
        *y++ = (int16_t)tc_clamp((int32_t)((acc + half) >> p->shift) + p->y_zero, p->y_min,
                                 p->y_max);
    })
}

#endif
