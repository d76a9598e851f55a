/* SPDX-License-Identifier: 0BSD */
/* Axes in another order, any element type.
 *
 * y is written front to back: five nested loops of n<k> steps, outermost first; a step of loop k moves
 * step<k> bytes in x. The innermost copies `unit` bytes. y may not overlap x. No scratch.
 */
#ifndef TC_TRANSPOSE_H
#define TC_TRANSPOSE_H

#include "tc_copy.h"

typedef struct {
    int32_t unit;
    int32_t n0, step0;
    int32_t n1, step1;
    int32_t n2, step2;
    int32_t n3, step3;
    int32_t n4, step4;
} tc_transpose_t;

/* Loops 3 and 4 of single bytes, the longer one inside. */
static inline void tc_transpose_bytes(const tc_transpose_t *p, const uint8_t *x, uint8_t *y)
{
    const int32_t swapped = p->n3 > p->n4;
    const int32_t outer = swapped ? p->n4 : p->n3, inner = swapped ? p->n3 : p->n4;
    const int32_t outer_x = swapped ? p->step4 : p->step3, inner_x = swapped ? p->step3 : p->step4;
    const int32_t outer_y = swapped ? 1 : p->n4, inner_y = swapped ? p->n4 : 1;

    for (int32_t i = 0; i < outer; i++) {
        const uint8_t *in = x + i * outer_x;
        uint8_t *out = y + i * outer_y;
        for (int32_t k = 0; k < inner; k++, in += inner_x, out += inner_y) {
            *out = *in;
        }
    }
}

TC_INLINE void tc_transpose_runs(const tc_transpose_t *p, const uint8_t *x, uint8_t *y, tc_copy_t *copy)
{
    for (int32_t i3 = 0; i3 < p->n3; i3++) {
        const uint8_t *in = x + i3 * p->step3;
        for (int32_t i4 = 0; i4 < p->n4; i4++, in += p->step4, y += p->unit) {
            copy(y, in, p->unit);
        }
    }
}

/* copy: what copies a run. */
TC_INLINE void tc_transpose_by(const tc_transpose_t *p, const void *x, void *y, tc_copy_t *copy)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++, out += p->n3 * p->n4 * p->unit) {
                const uint8_t *in = (const uint8_t *)x + i0 * p->step0 + i1 * p->step1 + i2 * p->step2;
                if (p->unit == 1) {
                    tc_transpose_bytes(p, in, out);
                } else {
                    tc_transpose_runs(p, in, out, copy);
                }
            }
        }
    }
}

static TC_UNUSED void tc_transpose(const tc_transpose_t *p, const void *x, void *y)
{
    tc_transpose_by(p, x, y, tc_copy);
}

#endif
