/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int8 tensors in its linear form.
 *
 *   y = clamp(((a * x0 + b * x1 + c) >> shift) + y_zero, y_min, y_max)
 *
 * The zero points of the inputs are in c, for a difference b is negative; the compiler has proved that
 * the sum fits int32 and that the result is the rounding rule's for every pair of inputs.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_ADD_LINEAR_S8_H
#define TC_ADD_LINEAR_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t a, b, c, shift;
    int32_t y_zero, y_min, y_max;
} tc_add_linear_s8_t;

static void tc_add_linear_s8(const tc_add_linear_s8_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    TC_EACH_PAIR(p, int8_t, x0, x1, {
        *y++ = (int8_t)tc_clamp(((p->a * a + p->b * b + p->c) >> p->shift) + p->y_zero,
                                p->y_min, p->y_max);
    })
}

#endif
