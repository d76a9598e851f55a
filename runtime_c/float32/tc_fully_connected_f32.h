/* SPDX-License-Identifier: 0BSD */
/* Fully connected layer, float32.
 *
 *   acc = bias[o]; for i, in this order: acc = fma(x[b][i], w[o][i], acc); y[b][o] = clip(acc, lo, hi)
 *
 * w: outputs four by four, [in_c][4] each, those that are left over one by one. lo, hi: the bits of floats. x
 * [batch][in_c], y [batch][out_c], may not overlap. No scratch.
 */
#ifndef TC_FULLY_CONNECTED_F32_H
#define TC_FULLY_CONNECTED_F32_H

#include "tc_float.h"

typedef struct {
    const float *w, *bias;
    int32_t lo, hi;
    int32_t batch, in_c, out_c;
} tc_fully_connected_f32_t;

static void tc_fully_connected_f32(const tc_fully_connected_f32_t *p, const float *x, float *y)
{
    const int32_t in_c = p->in_c;
    const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);

    for (int32_t b = 0; b < p->batch; b++, x += in_c) {
        const float *w = p->w, *bias = p->bias;
        for (int32_t fours = p->out_c / 4; fours > 0; fours--, bias += 4) {
            float a0 = bias[0], a1 = bias[1], a2 = bias[2], a3 = bias[3];
            for (int32_t i = 0; i < in_c; i++, w += 4) {
                a0 = tc_fma(x[i], w[0], a0);
                a1 = tc_fma(x[i], w[1], a1);
                a2 = tc_fma(x[i], w[2], a2);
                a3 = tc_fma(x[i], w[3], a3);
            }
            *y++ = tc_clip(a0, lo, hi);
            *y++ = tc_clip(a1, lo, hi);
            *y++ = tc_clip(a2, lo, hi);
            *y++ = tc_clip(a3, lo, hi);
        }
        for (int32_t rest = p->out_c % 4; rest > 0; rest--) {
            float acc = *bias++;
            for (int32_t i = 0; i < in_c; i++) {
                acc = tc_fma(x[i], *w++, acc);
            }
            *y++ = tc_clip(acc, lo, hi);
        }
    }
}

#endif
