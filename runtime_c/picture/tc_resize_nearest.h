/* SPDX-License-Identifier: 0BSD */
/* Every output pixel is a copy of one input pixel, any element type.
 *
 *   y[oy][ox] = x[rows[oy]][columns[ox]], a pixel of `unit` bytes
 *
 * rows [out_h] and columns [out_w] from the compiler. x [..][in_w], y [out_h][out_w], may not overlap. No
 * scratch.
 */
#ifndef TC_RESIZE_NEAREST_H
#define TC_RESIZE_NEAREST_H

#include "tc_copy.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t in_w, out_h, out_w, unit;
} tc_resize_nearest_t;

/* copy: what copies a pixel. */
TC_INLINE void tc_resize_nearest_by(const tc_resize_nearest_t *p, const void *x, void *y, tc_copy_t *copy)
{
    uint8_t *out = (uint8_t *)y;

    for (int32_t oy = 0; oy < p->out_h; oy++) {
        const uint8_t *row = (const uint8_t *)x + p->rows[oy] * p->in_w * p->unit;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            copy(out, row + p->columns[ox] * p->unit, p->unit);
            out += p->unit;
        }
    }
}

static TC_UNUSED void tc_resize_nearest(const tc_resize_nearest_t *p, const void *x, void *y)
{
    tc_resize_nearest_by(p, x, y, tc_copy);
}

#endif
