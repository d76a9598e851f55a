/* Axes in another order, any element type.
 *
 * y is written front to back: four nested loops of n<k> steps, outermost first; a step of loop k moves
 * step<k> bytes in x. The innermost copies `unit` bytes. y may not overlap x. No scratch.
 */
#ifndef TC_TRANSPOSE_H
#define TC_TRANSPOSE_H

#include "tc_math.h"

typedef struct {
    int32_t unit;
    int32_t n0, step0;
    int32_t n1, step1;
    int32_t n2, step2;
    int32_t n3, step3;
} tc_transpose_t;

static void tc_transpose(const tc_transpose_t *p, const void *x, void *y)
{
    uint8_t *restrict out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const uint8_t *restrict in = (const uint8_t *)x + i0 * p->step0 + i1 * p->step1 + i2 * p->step2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, in += p->step3) {
                    for (int32_t b = 0; b < p->unit; b++) {
                        *out++ = in[b];
                    }
                }
            }
        }
    }
}

#endif
