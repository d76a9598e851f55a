/* SPDX-License-Identifier: 0BSD */
/* Samples of several axes, scaled to a model's integers: sample i is of axis i % axes,
 *
 *   y[i] = clamp((x[i] * factor[axis] + offset[axis] * 2^(bits - 12)) / 2^bits, least, most)
 *
 * to the nearest, halves up, or with `cuts` towards zero. bits: 12 to 42. y may not overlap x. No scratch.
 */
#ifndef TC_AXES_SCALE_H
#define TC_AXES_SCALE_H

#include "tc_math.h"

typedef struct {
    const int32_t *factor; /* [axes] */
    const int32_t *offset; /* [axes] */
    int32_t n, axes, bits, least, most, cuts;
} tc_axes_scale_t;

static inline int32_t tc_axes_scaled(const tc_axes_scale_t *p, int32_t axis, int32_t x)
{
    const int64_t one = (int64_t)1 << p->bits;
    int64_t q = (int64_t)x * p->factor[axis] + p->offset[axis] * (one >> 12);

    if (p->cuts) {
        q = q < 0 ? -(-q >> p->bits) : q >> p->bits;
    } else {
        q = (q + (one >> 1)) >> p->bits;
    }
    return (int32_t)(q < p->least ? p->least : q > p->most ? p->most : q);
}

#endif
