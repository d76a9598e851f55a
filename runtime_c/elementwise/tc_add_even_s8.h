/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int8 tensors, rounded to nearest, halves to even.
 *
 *   y = clamp(round((a * x0 + b * x1 + c) / 2^shift) + y_zero, y_min, y_max)
 *
 * The zero points of the inputs are in c, for a difference b is negative. shift in [1, 30]; the compiler has
 * proved that the sum and its rounding fit int32.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_ADD_EVEN_S8_H
#define TC_ADD_EVEN_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t a, b, c, shift;
    int32_t y_zero, y_min, y_max;
} tc_add_even_s8_t;

static void tc_add_even_s8(const tc_add_even_s8_t *layer, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    /* No store changes a copy; member by member, since a compiler may call memcpy for all of them. */
    const tc_add_even_s8_t own = {
        TC_PAIR_LOOPS_OF(layer),
        layer->a, layer->b, layer->c, layer->shift,
        layer->y_zero, layer->y_min, layer->y_max,
    };
    const tc_add_even_s8_t *const p = &own;

    TC_EACH_PAIR(p, int8_t, x0, x1, {
        const int32_t acc = p->a * a + p->b * b + p->c;
        const int32_t half = (1 << (p->shift - 1)) - 1 + ((acc >> p->shift) & 1);
        *y++ = (int8_t)tc_clamp(((acc + half) >> p->shift) + p->y_zero, p->y_min, p->y_max);
    })
}

#endif
