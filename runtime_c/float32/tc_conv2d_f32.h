/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution, float32.
 *
 *   acc = bias[o]; for ky, kx, i, in this order: acc = fma(x[ky][ox*stride_w - pad_left + kx*dilation_w][i],
 *       w[o][ky][kx][i], acc)
 *   y[ox][o] = clip(acc, lo, hi)
 *
 * Taps outside the image are left out. x: k_h pointers to input rows f32 [in_w][in_c]; a row outside the
 * image is a null pointer. w: output channels four by four, [k_h][k_w][in_c / groups][4] each, those that are
 * left over one by one. lo, hi: the bits of floats. y [out_w][out_c], may not overlap x. Group g of out_c /
 * groups outputs reads inputs [g * in_c/groups, (g + 1) * in_c/groups). No scratch.
 */
#ifndef TC_CONV2D_F32_H
#define TC_CONV2D_F32_H

#include "tc_float.h"

typedef struct {
    const float *w, *bias;
    int32_t lo, hi;
    int32_t in_w, in_c, out_w, out_c, k_h, k_w, stride_w, pad_left, dilation_w, groups;
} tc_conv2d_f32_t;

static inline void tc_add_one_f32(float *acc, const float *x, const float *w, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        acc[0] = tc_fma(x[i], w[i], acc[0]);
    }
}

static void tc_conv2d_f32(const tc_conv2d_f32_t *p, const int8_t *const *x, float *y)
{
    const int32_t group_in = p->in_c / p->groups, group_out = p->out_c / p->groups;
    const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const float *w = p->w;
        for (int32_t o = 0, several; o < p->out_c; o += several) {
            const int32_t first = o / group_out * group_in;
            float acc[4];
            several = group_out - o % group_out >= 4 ? 4 : 1;
            for (int32_t j = 0; j < several; j++) {
                acc[j] = p->bias[o + j];
            }
            for (int32_t ky = 0; ky < p->k_h; ky++) {
                const float *row = (const float *)(const void *)x[ky];
                for (int32_t kx = 0; kx < p->k_w; kx++, w += several * group_in) {
                    const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                    if (!row || ix < 0 || ix >= p->in_w) continue;
                    if (several == 4) {
                        tc_add_four_f32(acc, row + ix * p->in_c + first, w, group_in);
                    } else {
                        tc_add_one_f32(acc, row + ix * p->in_c + first, w, group_in);
                    }
                }
            }
            for (int32_t j = 0; j < several; j++) {
                *y++ = tc_clip(acc[j], lo, hi);
            }
        }
    }
}

#endif
