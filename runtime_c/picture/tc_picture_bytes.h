/* SPDX-License-Identifier: 0BSD */
/* Pixels of whole bytes, of a whole frame.
 *
 * Row by row as in tc_picture_bytes_row.h. No scratch.
 */
#ifndef TC_PICTURE_BYTES_H
#define TC_PICTURE_BYTES_H

#include "tc_picture_bytes_row.h"

static void tc_picture_bytes(const tc_picture_bytes_t *p, const uint8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        tc_picture_bytes_row(p, x + p->rows[r] * p->line, y);
        y += p->out_w * p->channels;
    }
}

#endif
