/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis, int8 in and out, float32 inside: only +, * and / in the order below.
 *
 *   e[c] = exps[max - x[c]]
 *   y[c] = clamp(round(e[c] * (1 / (sum(e) * y_scale))) + y_zero, -128, 127), halves away from zero
 *
 * The bits are those of desktop LiteRT's int8 softmax. Compile without contraction
 * (-ffp-contract=off) and without -ffast-math. y may be x. No scratch.
 */
#ifndef TC_SOFTMAX_F32_S8_H
#define TC_SOFTMAX_F32_S8_H

#include "tc_math.h"

typedef struct {
    const float *exps; /* [256], exps[0] = 1 */
    int32_t outer, depth;
    float y_scale;
    int32_t y_zero;
} tc_softmax_f32_s8_t;

static void tc_softmax_f32_s8(const tc_softmax_f32_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        int32_t max = x[0];
        float sum = 0.0f;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            sum += p->exps[max - x[c]];
        }
        const float inverse = 1.0f / (sum * p->y_scale), twice = inverse + inverse;
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t halves = (int32_t)(p->exps[max - x[c]] * twice); /* >= 0, at most 2 / y_scale */
            const int32_t q = ((halves + 1) >> 1) + p->y_zero;
            y[c] = (int8_t)(q > 127 ? 127 : q);
        }
    }
}

#endif
