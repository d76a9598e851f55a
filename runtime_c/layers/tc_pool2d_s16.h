/* SPDX-License-Identifier: 0BSD */
/* Average or maximum of every window of an image, int16; the whole tensor.
 *
 *   y[oy][ox][c] = clamp(average or maximum of the taps inside the image, y_min, y_max)
 *   taps at rows oy*stride_h - pad_top + ky*dilation_h, columns alike
 *
 * The average is rounded to nearest, halves away from zero; with count_pad taps outside count as x_zero.
 * Every window has a tap inside. y may not overlap x. No scratch.
 */
#ifndef TC_POOL2D_S16_H
#define TC_POOL2D_S16_H

#include "tc_math.h"

typedef struct {
    int32_t in_h, in_w, in_c, out_h, out_w, k_h, k_w;
    int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int32_t average, count_pad, x_zero, y_min, y_max;
} tc_pool2d_s16_t;

static int32_t tc_pool2d_s16_window(const tc_pool2d_s16_t *p, const int16_t *x, int32_t top, int32_t left)
{
    int32_t most = INT32_MIN, sum = 0, count = 0;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        for (int32_t kx = 0; kx < p->k_w; kx++) {
            const int32_t iy = top + ky * p->dilation_h, ix = left + kx * p->dilation_w;
            if (iy >= 0 && iy < p->in_h && ix >= 0 && ix < p->in_w) {
                const int32_t q = x[(iy * p->in_w + ix) * p->in_c];
                most = q > most ? q : most;
                sum += q;
                count++;
            } else if (p->count_pad) {
                sum += p->x_zero;
                count++;
            }
        }
    }
    if (!p->average) return most;
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

static void tc_pool2d_s16(const tc_pool2d_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            const int32_t left = ox * p->stride_w - p->pad_left;
            for (int32_t c = 0; c < p->in_c; c++) {
                *y++ = (int16_t)tc_clamp(tc_pool2d_s16_window(p, x + c, top, left), p->y_min, p->y_max);
            }
        }
    }
}

#endif
