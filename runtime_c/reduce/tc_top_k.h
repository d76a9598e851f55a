/* SPDX-License-Identifier: 0BSD */
/* The indices of the k largest (or smallest) elements along the middle axis of x [outer][n][inner], best
 * first; of equals the first. 1 <= k <= n.
 *
 * y [outer][k][inner] int32, the best of the elements seen so far while they are read. y may not overlap x.
 * No scratch.
 */
#ifndef TC_TOP_K_H
#define TC_TOP_K_H

#include "tc_math.h"

typedef struct {
    int32_t outer, n, inner, k;
    int32_t largest; /* 1: the largest, 0: the smallest */
} tc_top_k_t;

#define TC_TOP_K(name, type)                                                                  \
    static void name##_line(const tc_top_k_t *p, const type *x, int32_t *y)                   \
    {                                                                                         \
        const int32_t step = p->inner;                                                        \
        int32_t held = 0;                                                                     \
        for (int32_t n = 0; n < p->n; n++) {                                                  \
            const type v = x[n * step];                                                       \
            int32_t at = held;                                                                \
            held += held < p->k ? 1 : 0;                                                      \
            for (; at > 0; at--) {                                                            \
                const int32_t other = y[(at - 1) * step];                                     \
                if (!(p->largest ? v > x[other * step] : v < x[other * step])) break;         \
                if (at < held) y[at * step] = other;                                          \
            }                                                                                 \
            if (at < held) y[at * step] = n;                                                  \
        }                                                                                     \
    }                                                                                         \
    static void name(const tc_top_k_t *p, const type *x, int32_t *y)                          \
    {                                                                                         \
        for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner, y += p->k * p->inner) {  \
            for (int32_t i = 0; i < p->inner; i++) {                                          \
                name##_line(p, x + i, y + i);                                                 \
            }                                                                                 \
        }                                                                                     \
    }

#endif
