/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise 2-D convolution, int8 activations, int4 weights, one scale per output channel.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx of x[ky][ox*stride_w - pad_left + kx*dilation_w][o / m] *
 *       w[ky][kx][o]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max),   m = out_c / in_c
 *
 * bias already contains -x_zero * sum(w[..][o]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points.
 * pad: at least in_c bytes of x_zero. w [k_h][k_w][out_c], two in a byte (tc_nibbles.h). y [out_w][out_c],
 * may not overlap x. acc cannot overflow: the compiler bounds it. No scratch.
 */
#ifndef TC_DEPTHWISE_CONV2D_S8_W4_H
#define TC_DEPTHWISE_CONV2D_S8_W4_H

#include "tc_nibbles.h"

typedef struct {
    const uint8_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    const int8_t *pad;
    int32_t in_w, in_c, out_w, out_c, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t y_zero, y_min, y_max;
    int32_t rounds;
} tc_depthwise_conv2d_s8_w4_t;

static void tc_depthwise_conv2d_s8_w4(const tc_depthwise_conv2d_s8_w4_t *p, const int8_t *const *x, int8_t *y)
{
    const int32_t m = p->out_c / p->in_c;

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        for (int32_t o = 0; o < p->out_c; o++) {
            const int32_t i = o / m;
            int32_t tap = o;
            int32_t acc = p->bias[o];
            for (int32_t ky = 0; ky < p->k_h; ky++) {
                for (int32_t kx = 0; kx < p->k_w; kx++, tap += p->out_c) {
                    const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                    const int8_t *in = ix >= 0 && ix < p->in_w ? x[ky] + ix * p->in_c : p->pad;
                    acc += in[i] * tc_nibble(p->w, tap);
                }
            }
            acc = tc_requantize(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(acc, p->y_min, p->y_max);
        }
    }
}

#endif
