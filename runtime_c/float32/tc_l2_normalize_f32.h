/* SPDX-License-Identifier: 0BSD */
/* y = x / max(sqrt(sum), epsilon) over the last axis, float32; sum = 0, then fma(x[c], x[c], sum) from the
 * first to the last. x and y [outer][depth]; y may be x. No scratch.
 */
#ifndef TC_L2_NORMALIZE_F32_H
#define TC_L2_NORMALIZE_F32_H

#include "tc_float_root.h"

typedef struct {
    int32_t outer, depth;
    float epsilon;
} tc_l2_normalize_f32_t;

static void tc_l2_normalize_f32(const tc_l2_normalize_f32_t *p, const float *x, float *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        float sum = 0.0f;
        for (int32_t c = 0; c < p->depth; c++) {
            sum = tc_fma(x[c], x[c], sum);
        }
        sum = tc_sqrt(sum);
        const float norm = sum > p->epsilon ? sum : p->epsilon;
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = x[c] / norm;
        }
    }
}

#endif
