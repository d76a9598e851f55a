/* SPDX-License-Identifier: 0BSD */
/* Mean over the middle axis of x [outer][n][inner], int16.
 *
 *   y[o][i] = clamp(requantize(sum over k of (x[o][k][i] - x_zero), mult, shift) + y_zero, -32768, 32767)
 *
 * mult and shift contain 1/n; mult may lie in [2^29, 2^31). rounds 3: mult holds the bits of a float32
 * factor; then, with zero_first, y_zero is added in float32 before rounding. y [outer][inner], may not
 * overlap x. The sum cannot overflow: the compiler bounds n. No scratch.
 */
#ifndef TC_MEAN_S16_H
#define TC_MEAN_S16_H

#include "tc_math.h"

typedef struct {
    int32_t outer, n, inner;
    int32_t x_zero, mult, shift, y_zero;
    int32_t rounds, zero_first;
} tc_mean_s16_t;

static void tc_mean_s16(const tc_mean_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner) {
        for (int32_t i = 0; i < p->inner; i++) {
            int32_t sum = -p->n * p->x_zero;
            for (int32_t k = 0; k < p->n; k++) {
                sum += x[k * p->inner + i];
            }
            if (p->zero_first) {
                /* volatile: multiplication and addition each round, never contracted to one */
                const volatile float product = (float)sum * tc_float_of(p->mult);
                sum = tc_round_half_even(product + (float)p->y_zero);
            } else {
                sum = tc_requantize(sum, p->mult, p->shift, p->rounds) + p->y_zero;
            }
            *y++ = (int16_t)tc_clamp(sum, -32768, 32767);
        }
    }
}

#endif
