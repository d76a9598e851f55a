/* SPDX-License-Identifier: 0BSD */
/* Elementwise operators of two float32 tensors, a result of `a` and `b` each, clipped to [lo, hi] (the bits
 * of floats).
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_BINARY_F32_H
#define TC_BINARY_F32_H

#include "tc_float.h"
#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t lo, hi;
} tc_binary_f32_t;

#define TC_BINARY_F32(name, result)                                                         \
    static void name(const tc_binary_f32_t *p, const float *x0, const float *x1, float *y)  \
    {                                                                                       \
        const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);                       \
        TC_EACH_PAIR(p, float, x0, x1, *y++ = tc_clip(result, lo, hi))                      \
    }

#endif
