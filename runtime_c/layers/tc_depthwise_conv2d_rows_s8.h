/* SPDX-License-Identifier: 0BSD */
/* A depthwise 2-D convolution whose window is as high as the image, int8, one input row per call.
 *
 *   acc[ox][o] = bias[o] + sum over r, kx of x_r[ox*stride_w - pad_left + kx*dilation_w][o / m] * w[r][kx][o]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max),   m = out_c / in_c
 *
 * bias already contains -x_zero * sum(w[..][o]), so a padded column reads x_zero. x: row `row` of the image,
 * s8 [in_w][in_c]. pad: at least in_c bytes of x_zero. w [in_h][k_w][out_c]. sums: int32 [out_w][out_c], kept
 * from row 0 to row in_h - 1, the call that writes y [out_w][out_c]; the others leave y alone. y may not
 * overlap sums or x. acc cannot overflow: the compiler bounds it.
 */
#ifndef TC_DEPTHWISE_CONV2D_ROWS_S8_H
#define TC_DEPTHWISE_CONV2D_ROWS_S8_H

#include "tc_math.h"

typedef struct {
    const int8_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    const int8_t *pad;
    int32_t in_h, in_w, in_c, out_w, out_c, k_w, stride_w, pad_left, dilation_w;
    int32_t y_zero, y_min, y_max;
    int32_t rounds;
} tc_depthwise_conv2d_rows_s8_t;

static void tc_depthwise_conv2d_rows_s8(const tc_depthwise_conv2d_rows_s8_t *p, const int8_t *x, void *sums,
                                        int32_t row, int8_t *y)
{
    const int32_t m = p->out_c / p->in_c;
    int32_t *acc = (int32_t *)sums;

    for (int32_t ox = 0; ox < p->out_w; ox++, acc += p->out_c) {
        for (int32_t o = 0; o < p->out_c; o++) {
            const int8_t *w = p->w + row * p->k_w * p->out_c + o;
            int32_t sum = row == 0 ? p->bias[o] : acc[o];
            for (int32_t kx = 0; kx < p->k_w; kx++, w += p->out_c) {
                const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                const int8_t *in = ix >= 0 && ix < p->in_w ? x + ix * p->in_c : p->pad;
                sum += (int32_t)in[o / m] * *w;
            }
            acc[o] = sum;
            if (row == p->in_h - 1) {
                const int32_t q = tc_requantize(sum, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
                *y++ = (int8_t)tc_clamp(q, p->y_min, p->y_max);
            }
        }
    }
}

#endif
