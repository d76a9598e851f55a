/* SPDX-License-Identifier: 0BSD */
/* Comparison of quantized elements, 0 or 1: what tc_compare_s8.h and tc_compare_s16.h share.
 *
 *   u<k> = requantize((x<k> - x<k>_zero) * 2^8, mult<k>, shift<k>)
 *   y = u0 ? u1, by kind: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal
 *
 * mult<k>, shift<k> are the scale of x<k>, or its share of the larger one; u<k> fits int32.
 */
#ifndef TC_COMPARE_H
#define TC_COMPARE_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t kind;
    int32_t x0_zero, x1_zero;
    int32_t mult0, shift0, mult1, shift1;
} tc_compare_t;

static inline uint8_t tc_compare_element(const tc_compare_t *p, int32_t x0, int32_t x1)
{
    const int32_t u0 = tc_requantize_double((x0 - p->x0_zero) * 256, p->mult0, p->shift0);
    const int32_t u1 = tc_requantize_double((x1 - p->x1_zero) * 256, p->mult1, p->shift1);

    switch (p->kind) {
    case 0: return u0 == u1;
    case 1: return u0 != u1;
    case 2: return u0 < u1;
    case 3: return u0 <= u1;
    case 4: return u0 > u1;
    default: return u0 >= u1;
    }
}

#endif
