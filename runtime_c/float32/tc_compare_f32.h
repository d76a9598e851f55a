/* SPDX-License-Identifier: 0BSD */
/* Comparison of two float32 tensors, one byte 0 or 1 per element.
 *
 *   y = x0 ? x1, by kind: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and b<k> in
 * x1, 0 where that input repeats. y may not overlap an input. No scratch.
 */
#ifndef TC_COMPARE_F32_H
#define TC_COMPARE_F32_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
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
        layer->n0, layer->a0, layer->b0,
        layer->n1, layer->a1, layer->b1,
        layer->n2, layer->a2, layer->b2,
        layer->n3, layer->a3, layer->b3,
        layer->kind,
    };
    const tc_compare_f32_t *const p = &own;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const float *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const float *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *out++ = tc_compare_floats(*a, *b, p->kind);
                }
            }
        }
    }
}

#endif
