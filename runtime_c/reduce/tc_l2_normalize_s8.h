/* SPDX-License-Identifier: 0BSD */
/* x over the root of the sum of its squares along the last axis, int8 in and out (output scale 1/128, zero
 * point 0).
 *
 *   y[c] = clamp(round((x[c] - x_zero) / sqrt(sum((x - x_zero)^2)) * 128), -128, 127)
 *
 * The bits are those of TensorFlow Lite Micro's reference kernel: the inverse root by five Newton steps in
 * Q3.28, a doubling high multiply. A sum of 0 counts as 1. depth <= 32768. y may be x. No scratch.
 */
#ifndef TC_L2_NORMALIZE_S8_H
#define TC_L2_NORMALIZE_S8_H

#include "tc_softmax_fixed.h"

typedef struct {
    int32_t outer, depth, x_zero;
} tc_l2_normalize_s8_t;

/* 1 / sqrt(v) ~ the result * 2^(-31 - *down), v >= 0. */
static inline int32_t tc_inverse_root(int32_t v, int32_t *down)
{
    *down = 0;
    if (v <= 1) {
        return INT32_MAX;
    }
    *down = 11;
    while (v >= (int32_t)1 << 29) {
        v /= 4;
        (*down)++;
    }
    while (v < (int32_t)1 << 27) {
        v *= 4;
        (*down)--;
    }
    const int32_t half = ((v >> 1) + 1) >> 1;
    int32_t x = (int32_t)1 << 28;
    for (int32_t step = 0; step < 5; step++) {
        const int32_t cube = tc_softmax_shift_left(tc_softmax_mul(tc_softmax_mul(x, x), x), 6);
        x = tc_softmax_shift_left(tc_softmax_mul(((int32_t)1 << 28) + ((int32_t)1 << 27), x)
                                  - tc_softmax_mul(half, cube), 3);
    }
    x = tc_softmax_mul(x, 1518500250); /* sqrt(2) / 2 */
    if (*down < 0) {
        x = (int32_t)((uint32_t)x << -*down);
        *down = 0;
    }
    return x;
}

static void tc_l2_normalize_s8(const tc_l2_normalize_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        int32_t sum = 0;
        int32_t down;

        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t far = x[c] - p->x_zero;
            sum += far * far;
        }
        const int32_t mult = tc_inverse_root(sum, &down);
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t q = tc_requantize_double(x[c] - p->x_zero, mult, 7 - down);
            y[c] = (int8_t)tc_clamp(q, -128, 127);
        }
    }
}

#endif
