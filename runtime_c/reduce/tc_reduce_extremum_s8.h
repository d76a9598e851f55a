/* SPDX-License-Identifier: 0BSD */
/* Largest (largest != 0) or smallest element over the middle axis of x [outer][n][inner], int8.
 *
 * y [outer][inner] may not overlap x. No scratch.
 */
#ifndef TC_REDUCE_EXTREMUM_S8_H
#define TC_REDUCE_EXTREMUM_S8_H

#include "tc_math.h"

typedef struct {
    int32_t outer, n, inner, largest;
} tc_reduce_extremum_s8_t;

static void tc_reduce_extremum_s8(const tc_reduce_extremum_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->n * p->inner) {
        for (int32_t i = 0; i < p->inner; i++) {
            const int8_t *at = x + i;
            int8_t best = *at;
            for (int32_t k = 1; k < p->n; k++) {
                at += p->inner;
                best = (p->largest ? *at > best : *at < best) ? *at : best;
            }
            *y++ = best;
        }
    }
}

#endif
