/* SPDX-License-Identifier: 0BSD */
/* The index of the largest (or smallest) element along the middle axis of x [outer][n][inner], float32; the
 * first of equals.
 *
 * y [outer][inner] int32. y may not overlap x. No scratch.
 */
#ifndef TC_ARGMAX_F32_H
#define TC_ARGMAX_F32_H

#include "tc_math.h"

typedef struct {
    int32_t outer, n, inner;
    int32_t largest; /* 1: maximum, 0: minimum */
} tc_argmax_f32_t;

static void tc_argmax_f32(const tc_argmax_f32_t *p, const float *x, int32_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner) {
        for (int32_t i = 0; i < p->inner; i++) {
            int32_t best = 0;
            for (int32_t k = 1; k < p->n; k++) {
                const float v = x[k * p->inner + i], held = x[best * p->inner + i];
                best = p->largest ? (v > held ? k : best) : (v < held ? k : best);
            }
            *y++ = best;
        }
    }
}

#endif
