/* SPDX-License-Identifier: 0BSD */
/* Comparison of two float32 tensors, one byte 0 or 1 per element.
 *
 *   y = x0 ? x1, by kind: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal
 *
 * Elements pair as in tc_pairs.h. y may not overlap an input. No scratch.
 */
#ifndef TC_COMPARE_F32_H
#define TC_COMPARE_F32_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t kind;
} tc_compare_f32_t;

static inline uint8_t tc_compare_floats(float a, float b, int32_t kind)
{
    switch (kind) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
    }
}

static void tc_compare_f32(const tc_compare_f32_t *layer, const float *x0, const float *x1, void *y)
{
    /* No store changes a copy; member by member, since a compiler may call memcpy for all of them. */
    const tc_compare_f32_t own = {
        TC_PAIR_LOOPS_OF(layer),
        layer->kind,
    };
    const tc_compare_f32_t *const p = &own;
    uint8_t *out = (uint8_t *)y;

    TC_EACH_PAIR(p, float, x0, x1, *out++ = tc_compare_floats(a, b, p->kind))
}

#endif
