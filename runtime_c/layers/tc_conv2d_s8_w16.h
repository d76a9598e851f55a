/* SPDX-License-Identifier: 0BSD */
/* 2-D convolution, depthwise convolution or matrix product, int8 activations, int16 weights; the whole
 * tensor.
 *
 *   acc[oy][ox][o] = bias[o] + sum over ky, kx, i of x[iy][ix][first(o) + i] * w[o][ky][kx][i]
 *   iy = oy*stride_h - pad_top + ky*dilation_h, ix = ox*stride_w - pad_left + kx*dilation_w
 *   y[oy][ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]); a tap outside the image reads x_zero. Outputs come in groups of
 * group_out, which read group_in input channels each. A depthwise layer has group_in 1; a matrix product is
 * an image of height 1 with 1x1 weights. acc cannot overflow: the compiler bounds it. For weights that were
 * trained with a zero point and leave int8 without it.
 * w [out_c][k_h][k_w][group_in]. y may not overlap x. No scratch.
 */
#ifndef TC_CONV2D_S8_W16_H
#define TC_CONV2D_S8_W16_H

#include "tc_math.h"

typedef struct {
    const int16_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, group_in, group_out;
    int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int32_t x_zero, y_zero, y_min, y_max;
    int32_t rounds;
} tc_conv2d_s8_w16_t;

static int32_t tc_conv2d_s8_w16_sum(const tc_conv2d_s8_w16_t *p, const int8_t *x, int32_t top, int32_t left,
                                    int32_t o)
{
    const int32_t first = o / p->group_out * p->group_in;
    const int16_t *w = p->w + o * p->k_h * p->k_w * p->group_in;
    int32_t acc = p->bias[o];

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        for (int32_t kx = 0; kx < p->k_w; kx++, w += p->group_in) {
            const int32_t ix = left + kx * p->dilation_w;
            const int32_t inside = iy >= 0 && iy < p->in_h && ix >= 0 && ix < p->in_w;
            const int8_t *in = x + (inside ? (iy * p->in_w + ix) * p->in_c + first : 0);
            for (int32_t i = 0; i < p->group_in; i++) {
                acc += (inside ? in[i] : p->x_zero) * (int32_t)w[i];
            }
        }
    }
    return acc;
}

static void tc_conv2d_s8_w16(const tc_conv2d_s8_w16_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            const int32_t left = ox * p->stride_w - p->pad_left;
            for (int32_t o = 0; o < p->out_c; o++) {
                const int32_t acc = tc_conv2d_s8_w16_sum(p, x, top, left, o);
                const int32_t q = tc_requantize(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
                *y++ = (int8_t)tc_clamp(q, p->y_min, p->y_max);
            }
        }
    }
}

#endif
