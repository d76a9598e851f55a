/* SPDX-License-Identifier: 0BSD */
/* Transposed 2-D convolution, int16 activations, int8 weights, one scale per output channel; the whole
 * tensor.
 *
 *   acc[oy][ox][o] = bias[o] + sum over iy, ix, ky, kx, i of (x[iy][ix][i] - x_zero) * w[o][ky][kx][i],
 *                    where iy*stride_h + ky = oy + pad_top and ix*stride_w + kx = ox + pad_left
 *   y[oy][ox][o]   = clamp(scaled(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * Unlike in a convolution the bias holds no zero point: how many taps meet the image differs from output to
 * output.
 * w [out_c][k_h][k_w][in_c]. y [out_h][out_w][out_c], may not overlap x. acc cannot overflow: the compiler
 * bounds it. scaled: tc_scale_wide. No scratch.
 */
#ifndef TC_TRANSPOSE_CONV2D_S16_H
#define TC_TRANSPOSE_CONV2D_S16_H

#include "tc_wide.h"

typedef struct {
    const int8_t *w;
    const int64_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, pad_top, pad_left;
    int32_t x_zero, y_zero, y_min, y_max;
    int32_t rounds;
} tc_transpose_conv2d_s16_t;

/* The input row (or column) that meets tap k at `place` (output index + padding), or -1. */
static inline int32_t tc_transpose_conv2d_s16_input(int32_t place, int32_t k, int32_t stride, int32_t count)
{
    const int32_t far = place - k;
    return far >= 0 && far % stride == 0 && far / stride < count ? far / stride : -1;
}

static int64_t tc_transpose_conv2d_s16_sum(const tc_transpose_conv2d_s16_t *p, const int16_t *x, int32_t row,
                                           int32_t column, int32_t o)
{
    const int8_t *w = p->w + o * p->k_h * p->k_w * p->in_c;
    int64_t acc = p->bias[o];

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const int32_t iy = tc_transpose_conv2d_s16_input(row, ky, p->stride_h, p->in_h);
        for (int32_t kx = 0; kx < p->k_w; kx++, w += p->in_c) {
            const int32_t ix = tc_transpose_conv2d_s16_input(column, kx, p->stride_w, p->in_w);
            if (iy >= 0 && ix >= 0) {
                const int16_t *in = x + (iy * p->in_w + ix) * p->in_c;
                for (int32_t i = 0; i < p->in_c; i++) {
                    acc += (int32_t)(in[i] - p->x_zero) * w[i];
                }
            }
        }
    }
    return acc;
}

static void tc_transpose_conv2d_s16(const tc_transpose_conv2d_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t o = 0; o < p->out_c; o++) {
                const int64_t acc = tc_transpose_conv2d_s16_sum(p, x, oy + p->pad_top, ox + p->pad_left, o);
                const int32_t q = tc_scale_wide(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
                *y++ = (int16_t)tc_clamp(q, p->y_min, p->y_max);
            }
        }
    }
}

#endif
