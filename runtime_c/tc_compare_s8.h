/* SPDX-License-Identifier: 0BSD */
/* Comparison of two int8 tensors, one byte 0 or 1 per element.
 *
 *   u<k> = requantize((x<k> - x<k>_zero) * 2^8, mult<k>, shift<k>)
 *   y = u0 ? u1, by kind: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal
 *
 * mult<k>, shift<k> are the scale of x<k>, below 2^14.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_COMPARE_S8_H
#define TC_COMPARE_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    int32_t kind;
    int32_t x0_zero, x1_zero;
    int32_t mult0, shift0, mult1, shift1;
} tc_compare_s8_t;

static inline uint8_t tc_compare_element(const tc_compare_s8_t *p, int32_t x0, int32_t x1)
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

static void tc_compare_s8(const tc_compare_s8_t *p, const int8_t *x0, const int8_t *x1, void *y)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *out++ = tc_compare_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
