/* SPDX-License-Identifier: 0BSD */
/* Comparison of two int16 tensors, one byte 0 or 1 per element.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and
 * b<k> in x1, 0 where that input repeats. y may not overlap an input. No scratch.
 */
#ifndef TC_COMPARE_S16_H
#define TC_COMPARE_S16_H

#include "tc_compare.h"

static void tc_compare_s16(const tc_compare_t *p, const int16_t *x0, const int16_t *x1, void *y)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const int16_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int16_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, a += p->a3, b += p->b3) {
                    *out++ = tc_compare_element(p, *a, *b);
                }
            }
        }
    }
}

#endif
