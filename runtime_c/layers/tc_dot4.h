/* SPDX-License-Identifier: 0BSD */
/* Four dot products at a time: int8 weights of four outputs lie side by side, so that they share the loads of
 * x. */
#ifndef TC_DOT4_H
#define TC_DOT4_H

#include "tc_math.h"

/* sum[k] += x . w[.][k] for k in 0..3; w is [n][4]. */
static inline void tc_dot4(const int8_t *x, const int8_t *w, int32_t n, int32_t sum[4])
{
    int32_t sum0 = sum[0], sum1 = sum[1], sum2 = sum[2], sum3 = sum[3];
    for (int32_t c = 0; c < n; c++, w += 4) {
        const int32_t v = x[c];
        sum0 += v * w[0];
        sum1 += v * w[1];
        sum2 += v * w[2];
        sum3 += v * w[3];
    }
    sum[0] = sum0;
    sum[1] = sum1;
    sum[2] = sum2;
    sum[3] = sum3;
}

#endif
