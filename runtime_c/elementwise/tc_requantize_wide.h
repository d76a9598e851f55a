/* SPDX-License-Identifier: 0BSD */
/* The same reals in another integer quantization, in any width.
 *
 *   y[i] = clamp(requantize(x[i] - x_zero, mult, shift) + y_zero, y_min, y_max)
 *
 * x_bytes and y_bytes 1, 2 or 4 (int8, int16, int32). x and y [n], aligned to their elements, may not
 * overlap. x_zero and y_zero lie in the ranges of x and y; with x_bytes 4, x_zero is 0 and shift at most 0.
 * No scratch.
 */
#ifndef TC_REQUANTIZE_WIDE_H
#define TC_REQUANTIZE_WIDE_H

#include "tc_math.h"

typedef struct {
    int32_t n, x_bytes, y_bytes;
    int32_t x_zero, y_zero;
    int32_t mult, shift, rounds;
    int32_t y_min, y_max;
} tc_requantize_wide_t;

static void tc_requantize_wide(const tc_requantize_wide_t *p, const void *x, void *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t in = p->x_bytes == 1   ? ((const int8_t *)x)[i]
                           : p->x_bytes == 2 ? ((const int16_t *)x)[i]
                                             : ((const int32_t *)x)[i];
        const int32_t q = tc_requantize(in - p->x_zero, p->mult, p->shift, p->rounds) + p->y_zero;
        const int32_t out = tc_clamp(q, p->y_min, p->y_max);
        if (p->y_bytes == 1) {
            ((int8_t *)y)[i] = (int8_t)out;
        } else if (p->y_bytes == 2) {
            ((int16_t *)y)[i] = (int16_t)out;
        } else {
            ((int32_t *)y)[i] = out;
        }
    }
}

#endif
