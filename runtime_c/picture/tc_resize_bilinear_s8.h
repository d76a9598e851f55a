/* SPDX-License-Identifier: 0BSD */
/* Bilinear interpolation of an int8 image; input and output share scale and zero point.
 *
 * Row by row as in tc_resize_bilinear_row_s8.h. x [..][in_w][channels], y [out_h][out_w][channels], may not
 * overlap. No scratch.
 */
#ifndef TC_RESIZE_BILINEAR_S8_H
#define TC_RESIZE_BILINEAR_S8_H

#include "tc_resize_bilinear_row_s8.h"

static void tc_resize_bilinear_s8(const tc_resize_bilinear_s8_t *p, const int8_t *x, int8_t *y)
{
    const int32_t row_bytes = p->in_w * p->channels;

    for (int32_t r = 0; r < p->out_h; r++, y += p->out_w * p->channels) {
        const int8_t *const rows[2] = {x + p->rows[3 * r] * row_bytes, x + p->rows[3 * r + 1] * row_bytes};
        tc_resize_bilinear_row_s8(p, rows, r, y);
    }
}

#endif
