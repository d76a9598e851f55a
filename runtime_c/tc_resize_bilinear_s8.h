/* Bilinear interpolation of an int8 image; input and output share scale and zero point.
 *
 *   y = round((t0 * (1024 - f) + t1 * f) / 2^20), halves away from zero
 *   t<k> = x[row<k>][left] * (1024 - g) + x[row<k>][right] * g
 *
 * rows [out_h][3]: first row, second row, weight f of the second in 1/1024; columns [out_w][3] alike, with g.
 * x [..][in_w][channels], y [out_h][out_w][channels], may not overlap. No scratch.
 */
#ifndef TC_RESIZE_BILINEAR_S8_H
#define TC_RESIZE_BILINEAR_S8_H

#include "tc_math.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t in_w, channels, out_h, out_w;
} tc_resize_bilinear_s8_t;

static void tc_resize_bilinear_s8(const tc_resize_bilinear_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        const int16_t *row = p->rows + 3 * oy;
        const int8_t *upper = x + row[0] * p->in_w * p->channels;
        const int8_t *lower = x + row[1] * p->in_w * p->channels;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int16_t *column = p->columns + 3 * ox;
            const int32_t left = column[0] * p->channels, right = column[1] * p->channels;
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t t0 = upper[left + c] * (1024 - column[2]) + upper[right + c] * column[2];
                const int32_t t1 = lower[left + c] * (1024 - column[2]) + lower[right + c] * column[2];
                const int32_t sum = t0 * (1024 - row[2]) + t1 * row[2];
                *y++ = (int8_t)((sum > 0 ? sum + (1 << 19) : sum - (1 << 19)) / (1 << 20));
            }
        }
    }
}

#endif
