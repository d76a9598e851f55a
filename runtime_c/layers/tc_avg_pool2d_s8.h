/* SPDX-License-Identifier: 0BSD */
/* One row of 2-D average pooling, int8. Input and output share scale and zero point.
 *
 *   y[ox][c] = clamp(round(sum / n), y_min, y_max), halves away from zero
 *
 * sum and n run over the taps x[ky][ox*stride_w - pad_left + kx*dilation_w][c] that lie inside the image;
 * with count_pad, n = k_h * k_w and taps outside count as x_zero. At least one tap is inside.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image is a null pointer.
 * y [out_w][in_c], may not overlap x. No scratch.
 */
#ifndef TC_AVG_POOL2D_S8_H
#define TC_AVG_POOL2D_S8_H

#include "tc_math.h"

typedef struct {
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t y_min, y_max;
    int32_t count_pad, x_zero;
} tc_avg_pool2d_s8_t;

static void tc_avg_pool2d_s8(const tc_avg_pool2d_s8_t *p, const int8_t *const *x, int8_t *y)
{
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        for (int32_t c = 0; c < p->in_c; c++) {
            int32_t sum = 0, n = 0;
            for (int32_t ky = 0; ky < p->k_h; ky++) {
                for (int32_t kx = 0; kx < p->k_w; kx++) {
                    const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                    if (x[ky] && ix >= 0 && ix < p->in_w) {
                        sum += x[ky][ix * p->in_c + c];
                        n++;
                    }
                }
            }
            if (p->count_pad) {
                sum += (p->k_h * p->k_w - n) * p->x_zero;
                n = p->k_h * p->k_w;
            }
            *y++ = (int8_t)tc_clamp((sum > 0 ? sum + n / 2 : sum - n / 2) / n, p->y_min, p->y_max);
        }
    }
}

#endif
