/* SPDX-License-Identifier: 0BSD */
/* Bilinear interpolation of an int16 image; input and output share their scale.
 *
 *   y = round((t0 * (1024 - f) + t1 * f) / 2^20), halves away from zero
 *   t<k> = x[row<k>][left] * (1024 - g) + x[row<k>][right] * g
 *
 * rows [out_h][3]: first row, second row, weight f of the second in 1/1024; columns [out_w][3] alike, with g.
 * x [..][in_w][channels], y [out_h][out_w][channels], may not overlap x. No scratch.
 */
#ifndef TC_RESIZE_BILINEAR_S16_H
#define TC_RESIZE_BILINEAR_S16_H

#include "tc_math.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t in_w, channels, out_h, out_w;
} tc_resize_bilinear_s16_t;

static void tc_resize_bilinear_s16(const tc_resize_bilinear_s16_t *p, const int16_t *x, int16_t *y)
{
    const int32_t line = p->in_w * p->channels;

    for (int32_t oy = 0; oy < p->out_h; oy++) {
        const int16_t *row = p->rows + 3 * oy;
        const int16_t *upper = x + row[0] * line, *lower = x + row[1] * line;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int16_t *column = p->columns + 3 * ox;
            const int32_t left = column[0] * p->channels, right = column[1] * p->channels, g = column[2];
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t t0 = upper[left + c] * (1024 - g) + upper[right + c] * g;
                const int32_t t1 = lower[left + c] * (1024 - g) + lower[right + c] * g;
                const int64_t sum = (int64_t)t0 * (1024 - row[2]) + (int64_t)t1 * row[2];
                *y++ = (int16_t)((sum > 0 ? sum + (1 << 19) : sum - (1 << 19)) / (1 << 20));
            }
        }
    }
}

#endif
