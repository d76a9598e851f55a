/* SPDX-License-Identifier: 0BSD */
/* The larger or the smaller of two int8 tensors of one quantization.
 *
 * Elements pair as in tc_pairs.h. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_EXTREMUM_S8_H
#define TC_EXTREMUM_S8_H

#include "tc_pairs.h"

typedef struct {
    TC_PAIR_LOOPS;
    int32_t largest; /* 1: maximum, 0: minimum */
} tc_extremum_s8_t;

static void tc_extremum_s8(const tc_extremum_s8_t *layer, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    /* No store changes a copy; member by member, since a compiler may call memcpy for all of them. */
    const tc_extremum_s8_t own = {
        TC_PAIR_LOOPS_OF(layer),
        layer->largest,
    };
    const tc_extremum_s8_t *const p = &own;

    TC_EACH_PAIR(p, int8_t, x0, x1, *y++ = (a > b) == (p->largest != 0) ? a : b)
}

#endif
