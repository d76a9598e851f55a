/* SPDX-License-Identifier: 0BSD */
/* The index of the largest (or smallest) element along the middle axis of x [outer][n][inner]; the first of
 * equals.
 *
 * y [outer][inner] int32. y may not overlap x. No scratch.
 */
#ifndef TC_ARGMAX_S32_H
#define TC_ARGMAX_S32_H

#include "tc_math.h"

typedef struct {
    int32_t outer, n, inner;
    int32_t largest; /* 1: maximum, 0: minimum */
} tc_argmax_s32_t;

static void tc_argmax_s32(const tc_argmax_s32_t *p, const int32_t *x, int32_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner) {
        for (int32_t i = 0; i < p->inner; i++) {
            int32_t best = 0;
            for (int32_t k = 1; k < p->n; k++) {
                const int32_t q = x[k * p->inner + i], held = x[best * p->inner + i];
                best = p->largest ? (q > held ? k : best) : (q < held ? k : best);
            }
            *y++ = best;
        }
    }
}

#endif
