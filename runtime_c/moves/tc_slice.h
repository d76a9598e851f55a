/* SPDX-License-Identifier: 0BSD */
/* A rectangular part of a tensor, any element type: four nested loops that copy runs of bytes.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves step<k> bytes in x (negative
 * steps go backwards, steps of 0 repeat). Each innermost step copies `unit` bytes. `offset`: bytes from the
 * start of x to the first one that is copied. y may not overlap x. No scratch.
 */
#ifndef TC_SLICE_H
#define TC_SLICE_H

#include "tc_copy.h"

typedef struct {
    int32_t offset, unit;
    int32_t n0, step0;
    int32_t n1, step1;
    int32_t n2, step2;
    int32_t n3, step3;
} tc_slice_t;

/* copy: what copies a run. */
TC_INLINE void tc_slice_by(const tc_slice_t *p, const void *x, void *y, tc_copy_t *copy)
{
    const uint8_t *in = (const uint8_t *)x + p->offset;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                const uint8_t *from = in + i0 * p->step0 + i1 * p->step1 + i2 * p->step2;
                for (int32_t i3 = 0; i3 < p->n3; i3++, from += p->step3) {
                    copy(out, from, p->unit);
                    out += p->unit;
                }
            }
        }
    }
}

static TC_UNUSED void tc_slice(const tc_slice_t *p, const void *x, void *y)
{
    tc_slice_by(p, x, y, tc_copy);
}

#endif
