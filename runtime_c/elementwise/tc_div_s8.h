/* SPDX-License-Identifier: 0BSD */
/* Quotient of two int8 tensors.
 *
 *   q * 2^-down ~ (x0 - x0_zero) / (x1 - x1_zero), the divisor at least one step from 0
 *   y = clamp(round(q * mult * 2^(shift - 31 - down)) + y_zero, y_min, y_max)
 *
 * The bits are those of TensorFlow Lite Micro's reference kernel: the divisor's inverse by three Newton
 * steps, doubling high multiplies, a rounding shift. shift <= 22.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_DIV_S8_H
#define TC_DIV_S8_H

#include "tc_pairs.h"
#include "tc_softmax_fixed.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t x0_zero, x1_zero;
    int32_t mult, shift;
    int32_t y_zero, y_min, y_max;
} tc_div_s8_t;

static inline int8_t tc_div_element(const tc_div_s8_t *p, int32_t above, int32_t below)
{
    int32_t zeros = 0;
    int32_t headroom = 0;
    int32_t q = 0;

    if (below < 0) {
        above = -above;
        below = -below;
    }
    below += below == 0;
    while (((uint32_t)below << zeros) < 0x80000000u) {
        zeros++;
    }
    const int32_t inverse = tc_softmax_reciprocal((int32_t)(((uint32_t)below << zeros) - 0x80000000u));
    const uint32_t size = (uint32_t)(above < 0 ? -above - 1 : above);
    while (headroom < 31 && (size << headroom) < 0x40000000u) {
        headroom++;
    }
    const int32_t down = 31 - zeros + headroom - p->shift;
    if (down <= 31) {
        const int32_t raised = (int32_t)((uint32_t)above << headroom);
        q = tc_softmax_mul(tc_softmax_mul(raised, inverse), p->mult);
        q = (int32_t)((q + (((int64_t)1 << down) >> 1) - (down > 0 && q < 0)) >> down);
    }
    return (int8_t)tc_clamp(q + p->y_zero, p->y_min, p->y_max);
}

static void tc_div_s8(const tc_div_s8_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    TC_EACH_PAIR(p, int8_t, x0, x1, *y++ = tc_div_element(p, a - p->x0_zero, b - p->x1_zero))
}

#endif
