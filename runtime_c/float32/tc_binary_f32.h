/* SPDX-License-Identifier: 0BSD */
/* Elementwise operators of two float32 tensors, a result of `a` and `b` each, clipped to [lo, hi] (the bits
 * of floats).
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and b<k> in
 * x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_BINARY_F32_H
#define TC_BINARY_F32_H

#include "tc_float.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t lo, hi;
} tc_binary_f32_t;

#define TC_BINARY_F32(name, result)                                                             \
    static void name(const tc_binary_f32_t *p, const float *x0, const float *x1, float *y)      \
    {                                                                                           \
        const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);                           \
        for (int32_t i0 = 0; i0 < p->n0; i0++) {                                                \
            for (int32_t i1 = 0; i1 < p->n1; i1++) {                                            \
                for (int32_t i2 = 0; i2 < p->n2; i2++) {                                        \
                    const float *at0 = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;               \
                    const float *at1 = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;               \
                    for (int32_t i3 = 0; i3 < p->n3; i3++, at0 += p->a3, at1 += p->b3) {        \
                        const float a = *at0, b = *at1;                                         \
                        *y++ = tc_clip(result, lo, hi);                                         \
                    }                                                                           \
                }                                                                               \
            }                                                                                   \
        }                                                                                       \
    }

#endif
