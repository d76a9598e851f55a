/* SPDX-License-Identifier: 0BSD */
/* Fully connected, int8 activations and weights, one scale per output.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing.
 * x [batch][in_c]. w [out_c][in_c]. y [batch][out_c], may not overlap x.
 * acc cannot overflow: the compiler bounds it. No scratch.
 */
#ifndef TC_FULLY_CONNECTED_S8_H
#define TC_FULLY_CONNECTED_S8_H

#include "tc_math.h"

typedef struct {
    const int8_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t batch, in_c, out_c;
    int32_t y_zero, y_min, y_max;
    int32_t rounds;
} tc_fully_connected_s8_t;

static void tc_fully_connected_s8(const tc_fully_connected_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t b = 0; b < p->batch; b++, x += p->in_c) {
        const int8_t *w = p->w;
        for (int32_t o = 0; o < p->out_c; o++, w += p->in_c) {
            int32_t acc = p->bias[o];
            for (int32_t i = 0; i < p->in_c; i++) {
                acc += (int32_t)x[i] * w[i];
            }
            acc = tc_requantize(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(acc, p->y_min, p->y_max);
        }
    }
}

#endif
