/* SPDX-License-Identifier: 0BSD */
/* Tensors one after the other along one axis, any element type.
 *
 *   for each of the `outer` indices before the axis: run_bytes[k] bytes from every input k, in order
 *
 * Call as tc_concat(p, y, x0, x1, ...) with `count` inputs. y may not overlap an input. No scratch.
 */
#ifndef TC_CONCAT_H
#define TC_CONCAT_H

#include "tc_copy.h"

typedef struct {
    int32_t outer, count;
    const int32_t *run_bytes; /* [count]: the axis and all behind it, of one input */
} tc_concat_t;

#define tc_concat(p, y, ...) tc_concat_runs(p, y, (const void *const[]){__VA_ARGS__})

/* copy: what copies a run. */
TC_INLINE void tc_concat_by(const tc_concat_t *p, void *y, const void *const *x, tc_copy_t *copy)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t k = 0; k < p->count; k++) {
            copy(out, (const uint8_t *)x[k] + o * p->run_bytes[k], p->run_bytes[k]);
            out += p->run_bytes[k];
        }
    }
}

static TC_UNUSED void tc_concat_runs(const tc_concat_t *p, void *y, const void *const *x)
{
    tc_concat_by(p, y, x, tc_copy);
}

#endif
