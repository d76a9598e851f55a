/* SPDX-License-Identifier: 0BSD */
/* Parts of a tensor in the order that indices say, any element type.
 *
 * x is [outer][size][unit], y [outer][count][unit], unit in bytes: y[o][k] = x[o][indices[k]]. An index
 * counts from the end where it is negative; one outside of the axis is taken as the nearest inside, so that
 * no read leaves x. y may not overlap x or indices. No scratch.
 */
#ifndef TC_GATHER_H
#define TC_GATHER_H

#include "tc_copy.h"

typedef struct {
    int32_t outer, size, count, unit;
} tc_gather_t;

/* copy: what copies a part. */
TC_INLINE void tc_gather_by(const tc_gather_t *p, const void *x, const int32_t *indices, void *y,
                            tc_copy_t *copy)
{
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = (uint8_t *)y;

    for (int32_t o = 0; o < p->outer; o++, in += p->size * p->unit) {
        for (int32_t k = 0; k < p->count; k++) {
            const int32_t at = indices[k] < 0 ? indices[k] + p->size : indices[k];
            copy(out, in + tc_clamp(at, 0, p->size - 1) * p->unit, p->unit);
            out += p->unit;
        }
    }
}

static TC_UNUSED void tc_gather(const tc_gather_t *p, const void *x, const int32_t *indices, void *y)
{
    tc_gather_by(p, x, indices, y, tc_copy);
}

#endif
