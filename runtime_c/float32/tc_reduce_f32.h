/* SPDX-License-Identifier: 0BSD */
/* Reductions over the middle axis of x [outer][n][inner], float32, to y [outer][inner], each element from the
 * first to the last: a sum that begins with 0, divided by `count`; the largest, the smallest: the first that
 * no other exceeds. y may not overlap x. No scratch.
 */
#ifndef TC_REDUCE_F32_H
#define TC_REDUCE_F32_H

#include "tc_float.h"

typedef struct {
    int32_t outer, n, inner;
    float count;
} tc_reduce_f32_t;

#define TC_REDUCE_F32(name, begin, next, end)                                              \
    static void name(const tc_reduce_f32_t *p, const float *x, float *y)                    \
    {                                                                                       \
        for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner) {                      \
            for (int32_t i = 0; i < p->inner; i++) {                                        \
                float acc = begin;                                                          \
                for (int32_t k = 0; k < p->n; k++) {                                        \
                    const float v = x[k * p->inner + i];                                    \
                    acc = next;                                                             \
                }                                                                           \
                *y++ = end;                                                                 \
            }                                                                               \
        }                                                                                   \
    }

#endif
