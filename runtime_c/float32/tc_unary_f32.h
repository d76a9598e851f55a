/* SPDX-License-Identifier: 0BSD */
/* Elementwise functions of a float32 tensor: y[i] = a result of v = x[i] and the constants lo, hi or alpha, i
 * in [0, n). y may be x. No scratch.
 */
#ifndef TC_UNARY_F32_H
#define TC_UNARY_F32_H

#include "tc_float.h"

typedef struct {
    int32_t n;
    int32_t lo, hi; /* the bits of floats */
    float alpha;
} tc_unary_f32_t;

#define TC_UNARY_F32(name, result)                                                          \
    static void name(const tc_unary_f32_t *p, const float *x, float *y)                      \
    {                                                                                        \
        for (int32_t i = 0; i < p->n; i++) {                                                 \
            const float v = x[i];                                                            \
            y[i] = result;                                                                   \
        }                                                                                    \
    }

#endif
