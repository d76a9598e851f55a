/* SPDX-License-Identifier: 0BSD */
/* Leaky ReLU of int16: two factors, one for each sign of the real input.
 *
 *   y[i] = clamp(requantize(d, mult, shift) + y_zero, -32768, 32767), d = x[i] - x_zero;
 *       d < 0 takes mult_below, shift_below
 *
 * mult_below may be negative. x and y [n]; y may be x. The scaled difference fits int32: the compiler bounds
 * the factors.
 */
#ifndef TC_LEAKY_RELU_S16_H
#define TC_LEAKY_RELU_S16_H

#include "tc_math.h"

typedef struct {
    int32_t n, x_zero, y_zero;
    int32_t mult, shift, mult_below, shift_below, rounds;
} tc_leaky_relu_s16_t;

static void tc_leaky_relu_s16(const tc_leaky_relu_s16_t *layer, const int16_t *x, int16_t *y)
{
    /* No store changes a copy; member by member, since a compiler may call memcpy for all of them. */
    const tc_leaky_relu_s16_t own = {
        layer->n, layer->x_zero, layer->y_zero,
        layer->mult, layer->shift, layer->mult_below, layer->shift_below, layer->rounds,
    };
    const tc_leaky_relu_s16_t *const p = &own;
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t d = x[i] - p->x_zero;
        const int32_t q = d >= 0 ? tc_requantize(d, p->mult, p->shift, p->rounds)
                                 : tc_requantize(d, p->mult_below, p->shift_below, p->rounds);
        y[i] = (int16_t)tc_clamp(q + p->y_zero, -32768, 32767);
    }
}

#endif
