/* SPDX-License-Identifier: 0BSD */
/* Elements of one tensor or another, as a third says, any element type of `unit` bytes.
 *
 *   y = condition != 0 ? x0 : x1, the condition one byte per element
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves c<k> bytes in the condition,
 * a<k> bytes in x0 and b<k> bytes in x1, 0 where that input repeats. y may not overlap an input. No scratch.
 */
#ifndef TC_CHOOSE_H
#define TC_CHOOSE_H

#include "tc_math.h"

typedef struct {
    int32_t unit;
    int32_t n0, c0, a0, b0;
    int32_t n1, c1, a1, b1;
    int32_t n2, c2, a2, b2;
    int32_t n3, c3, a3, b3;
} tc_choose_t;

static void tc_choose(const tc_choose_t *p, const void *condition, const void *x0, const void *x1, void *y)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const uint8_t *c = (const uint8_t *)condition + i0 * p->c0 + i1 * p->c1 + i2 * p->c2;
                const uint8_t *a = (const uint8_t *)x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const uint8_t *b = (const uint8_t *)x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, c += p->c3, a += p->a3, b += p->b3) {
                    const uint8_t *from = *c ? a : b;
                    for (int32_t k = 0; k < p->unit; k++) {
                        *out++ = from[k];
                    }
                }
            }
        }
    }
}

#endif
