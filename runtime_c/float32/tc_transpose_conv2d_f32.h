/* SPDX-License-Identifier: 0BSD */
/* Transposed 2-D convolution, float32: output pixel (r, c) reads input pixel (iy, ix) through tap (ky, kx)
 * where r + pad_top = iy * stride_h + ky and c + pad_left = ix * stride_w + kx.
 *
 *   acc = bias[o]; for ky, kx, i, in this order: acc = fma(x[iy][ix][i], w[o][ky][kx][i], acc);
 *       y[r][c][o] = clip(acc, lo, hi)
 *
 * x [in_h][in_w][in_c], w [out_c][k_h][k_w][in_c], y [out_h][out_w][out_c], may not overlap x. lo, hi: the
 * bits of floats. No scratch.
 */
#ifndef TC_TRANSPOSE_CONV2D_F32_H
#define TC_TRANSPOSE_CONV2D_F32_H

#include "tc_float.h"

typedef struct {
    const float *w, *bias;
    int32_t lo, hi;
    int32_t in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, pad_top, pad_left;
} tc_transpose_conv2d_f32_t;

/* The input row (or column) that tap k of output `at` reads; -1: none. */
static inline int32_t tc_upwards_f32(int32_t at, int32_t k, int32_t stride, int32_t size)
{
    const int32_t far = at - k;
    return far >= 0 && far % stride == 0 && far / stride < size ? far / stride : -1;
}

static inline float tc_upwards_sum_f32(const tc_transpose_conv2d_f32_t *p, const float *x, int32_t r,
                                       int32_t c, int32_t o)
{
    const float *w = p->w + o * p->k_h * p->k_w * p->in_c;
    float acc = p->bias[o];

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const int32_t iy = tc_upwards_f32(r + p->pad_top, ky, p->stride_h, p->in_h);
        for (int32_t kx = 0; kx < p->k_w; kx++, w += p->in_c) {
            const int32_t ix = tc_upwards_f32(c + p->pad_left, kx, p->stride_w, p->in_w);
            if (iy < 0 || ix < 0) continue;
            for (int32_t i = 0; i < p->in_c; i++) {
                acc = tc_fma(x[(iy * p->in_w + ix) * p->in_c + i], w[i], acc);
            }
        }
    }
    return acc;
}

static void tc_transpose_conv2d_f32(const tc_transpose_conv2d_f32_t *p, const float *x, float *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        for (int32_t c = 0; c < p->out_w; c++) {
            for (int32_t o = 0; o < p->out_c; o++) {
                *y++ = tc_clip(tc_upwards_sum_f32(p, x, r, c, o), tc_float_of(p->lo), tc_float_of(p->hi));
            }
        }
    }
}

#endif
