/* SPDX-License-Identifier: 0BSD */
/* One row of a bilinear interpolation of an int8 image; input and output share scale and zero point.
 *
 *   y = round((t0 * (1024 - f) + t1 * f) / 2^20), halves away from zero
 *   t<k> = x[row<k>][left] * (1024 - g) + x[row<k>][right] * g
 *
 * x: pointers to the two input rows; the second is not read where f is 0. rows [out_h][3]: first row, second
 * row, weight f of the second in 1/1024; columns [out_w][3] alike, with g. y [out_w][channels], may not
 * overlap x. No scratch.
 */
#ifndef TC_RESIZE_BILINEAR_ROW_S8_H
#define TC_RESIZE_BILINEAR_ROW_S8_H

#include "tc_math.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t in_w, channels, out_h, out_w;
} tc_resize_bilinear_s8_t;

static inline void tc_resize_bilinear_row_s8(const tc_resize_bilinear_s8_t *p, const int8_t *const *x,
                                             int32_t r, int8_t *y)
{
    const int32_t f = p->rows[3 * r + 2];
    const int8_t *upper = x[0], *lower = f ? x[1] : x[0];

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int16_t *column = p->columns + 3 * ox;
        const int32_t left = column[0] * p->channels, right = column[1] * p->channels, g = column[2];
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t t0 = upper[left + c] * (1024 - g) + upper[right + c] * g;
            const int32_t t1 = lower[left + c] * (1024 - g) + lower[right + c] * g;
            const int32_t sum = t0 * (1024 - f) + t1 * f;
            *y++ = (int8_t)((sum > 0 ? sum + (1 << 19) : sum - (1 << 19)) / (1 << 20));
        }
    }
}

#endif
