/* SPDX-License-Identifier: 0BSD */
/* Logarithm of the softmax over the last axis, float32.
 *
 *   y[c] = (x[c] - max) - log(0 + exp(x[0] - max) + exp(x[1] - max) + ...), from the first to the last
 *
 * x and y [outer][depth]; y may be x. No scratch.
 */
#ifndef TC_LOG_SOFTMAX_F32_H
#define TC_LOG_SOFTMAX_F32_H

#include "tc_float_exp.h"
#include "tc_float_log.h"

typedef struct {
    int32_t outer, depth;
} tc_log_softmax_f32_t;

static void tc_log_softmax_f32(const tc_log_softmax_f32_t *p, const float *x, float *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        float max = x[0], sum = 0.0f;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            sum += tc_exp(x[c] - max);
        }
        const float log = tc_log(sum);
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = (x[c] - max) - log;
        }
    }
}

#endif
