/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise 2-D convolution, float32: channel c of the output reads channel c * in_c / out_c of
 * the input.
 *
 *   acc = bias[c]; for ky, kx, in this order: acc = fma(x[ky][ox*stride_w - pad_left + kx*dilation_w][..],
 *       w[ky][kx][c], acc)
 *   y[ox][c] = clip(acc, lo, hi)
 *
 * Taps outside the image are left out. x: k_h pointers to input rows f32 [in_w][in_c]; a row outside the
 * image is a null pointer. w [k_h][k_w][out_c]. lo, hi: the bits of floats. y [out_w][out_c], may not overlap
 * x. No scratch.
 */
#ifndef TC_DEPTHWISE_CONV2D_F32_H
#define TC_DEPTHWISE_CONV2D_F32_H

#include "tc_float.h"

typedef struct {
    const float *w, *bias;
    int32_t lo, hi;
    int32_t in_w, in_c, out_w, out_c, k_h, k_w, stride_w, pad_left, dilation_w;
} tc_depthwise_conv2d_f32_t;

static void tc_depthwise_conv2d_f32(const tc_depthwise_conv2d_f32_t *p, const int8_t *const *x, float *y)
{
    const int32_t each = p->out_c / p->in_c;
    const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        for (int32_t c = 0; c < p->out_c; c++) {
            float acc = p->bias[c];
            for (int32_t ky = 0; ky < p->k_h; ky++) {
                const float *row = (const float *)(const void *)x[ky], *w = p->w + ky * p->k_w * p->out_c + c;
                if (!row) continue;
                for (int32_t kx = 0; kx < p->k_w; kx++) {
                    const int32_t ix = left + kx * p->dilation_w;
                    if (ix < 0 || ix >= p->in_w) continue;
                    acc = tc_fma(row[ix * p->in_c + c / each], w[kx * p->out_c], acc);
                }
            }
            *y++ = tc_clip(acc, lo, hi);
        }
    }
}

#endif
