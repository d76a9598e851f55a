/* SPDX-License-Identifier: 0BSD */
/* The larger or the smaller of two int8 tensors of one quantization.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_EXTREMUM_S8_H
#define TC_EXTREMUM_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t largest; /* 1: maximum, 0: minimum */
} tc_extremum_s8_t;

static void tc_extremum_s8(const tc_extremum_s8_t *layer, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    /* No store changes a copy; member by member, since a compiler may call memcpy for all of them. */
    const tc_extremum_s8_t own = {
        layer->n0, layer->a0, layer->b0,
        layer->n1, layer->a1, layer->b1,
        layer->n2, layer->a2, layer->b2,
        layer->n3, layer->a3, layer->b3,
        layer->largest,
    };
    const tc_extremum_s8_t *const p = &own;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *y++ = (*a > *b) == (p->largest != 0) ? *a : *b;
                }
            }
        }
    }
}

#endif
