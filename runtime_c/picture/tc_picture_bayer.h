/* SPDX-License-Identifier: 0BSD */
/* Pixels of a Bayer mosaic, of a whole frame.
 *
 * Row by row as in tc_picture_bayer_row.h. No scratch.
 */
#ifndef TC_PICTURE_BAYER_H
#define TC_PICTURE_BAYER_H

#include "tc_picture_bayer_row.h"

static void tc_picture_bayer(const tc_picture_bayer_t *p, const uint8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        const int32_t row = p->rows[r], up = row > 0 ? row - 1 : 1,
            down = row < p->height - 1 ? row + 1 : row - 1;
        const uint8_t *const lines[3] = {x + up * p->line, x + row * p->line, x + down * p->line};

        tc_picture_bayer_line(p, lines, (row ^ p->red_row) & 1, y);
        y += p->out_w * p->channels;
    }
}

#endif
