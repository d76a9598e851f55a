/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution, int8 activations, int4 weights, one scale per output channel.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] *
 *       w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points.
 * pad: at least in_c bytes of x_zero. w [out_c][k_h][k_w][in_c / groups], two in a byte (tc_nibbles.h).
 * y [out_w][out_c], may not overlap x. Group g of out_c / groups outputs reads inputs [g * in_c/groups,
 * (g + 1) * in_c/groups). acc cannot overflow: the compiler bounds it. No scratch.
 */
#ifndef TC_CONV2D_S8_W4_H
#define TC_CONV2D_S8_W4_H

#include "tc_nibbles.h"

typedef struct {
    const uint8_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    const int8_t *pad;
    int32_t in_w, in_c, out_w, out_c, k_h, k_w, stride_w, pad_left, dilation_w, groups;
    int32_t y_zero, y_min, y_max;
    int32_t rounds;
} tc_conv2d_s8_w4_t;

static void tc_conv2d_s8_w4(const tc_conv2d_s8_w4_t *p, const int8_t *const *x, int8_t *y)
{
    const int32_t group_in = p->in_c / p->groups;
    const int32_t group_out = p->out_c / p->groups;

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        int32_t tap = 0;
        for (int32_t o = 0; o < p->out_c; o++) {
            const int32_t first = o / group_out * group_in;
            int32_t acc = p->bias[o];
            for (int32_t ky = 0; ky < p->k_h; ky++) {
                for (int32_t kx = 0; kx < p->k_w; kx++) {
                    const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                    const int8_t *in = ix >= 0 && ix < p->in_w ? x[ky] + ix * p->in_c + first : p->pad;
                    for (int32_t i = 0; i < group_in; i++, tap++) {
                        acc += in[i] * tc_nibble(p->w, tap);
                    }
                }
            }
            acc = tc_requantize(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(acc, p->y_min, p->y_max);
        }
    }
}

#endif
