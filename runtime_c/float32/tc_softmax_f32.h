/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis, float32.
 *
 *   e[c] = exp(beta * (x[c] - max)); y[c] = e[c] / (0 + e[0] + e[1] + ...), from the first to the last
 *
 * x and y [outer][depth]; y may be x. No scratch.
 */
#ifndef TC_SOFTMAX_F32_H
#define TC_SOFTMAX_F32_H

#include "tc_float_exp.h"

typedef struct {
    int32_t outer, depth;
    float beta;
} tc_softmax_f32_t;

static void tc_softmax_f32(const tc_softmax_f32_t *p, const float *x, float *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        float max = x[0], sum = 0.0f;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = tc_exp(p->beta * (x[c] - max));
            sum += y[c];
        }
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = y[c] / sum;
        }
    }
}

#endif
