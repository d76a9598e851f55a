/* SPDX-License-Identifier: 0BSD */
/* The sums by which a support vector machine decides each pair of its classes, float32.
 *
 * x [V]: the kernel function of each support vector, counts[0] of class 0 first. w [V][classes - 1]: a
 * vector's weights in the pairs of its class with each other class. b, y [classes * (classes - 1) / 2]: pairs
 * (0,1), (0,2) .. (1,2) ..
 *
 *   y[pair] = b[pair], then fma(x[v], w[v][other class], y[pair]) for the vectors of both classes, in order
 *
 * y may not overlap an input. No scratch.
 */
#ifndef TC_PAIR_SUMS_F32_H
#define TC_PAIR_SUMS_F32_H

#include "tc_float.h"

typedef struct {
    const int32_t *counts;
    int32_t classes;
} tc_pair_sums_f32_t;

static void tc_pair_sums_f32(const tc_pair_sums_f32_t *p, const float *x, const float *w, const float *b,
                             float *y)
{
    const int32_t classes = p->classes;
    for (int32_t k = 0; k < classes * (classes - 1) / 2; k++) {
        y[k] = b[k];
    }
    for (int32_t own = 0; own < classes; own++) {
        for (int32_t v = 0; v < p->counts[own]; v++, x++) {
            int32_t pair = own - 1; /* of class 0 and this one */
            for (int32_t other = 0; other < own; other++, w++) {
                y[pair] = tc_fma(*x, *w, y[pair]);
                pair += classes - 2 - other;
            }
            pair = own * classes - own * (own + 1) / 2; /* of this class and the next */
            for (int32_t other = own + 1; other < classes; other++, w++, pair++) {
                y[pair] = tc_fma(*x, *w, y[pair]);
            }
        }
    }
}

#endif
