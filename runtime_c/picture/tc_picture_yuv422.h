/* SPDX-License-Identifier: 0BSD */
/* Pixels in pairs that share their color, of a whole frame.
 *
 * Row by row as in tc_picture_yuv422_row.h. No scratch.
 */
#ifndef TC_PICTURE_YUV422_H
#define TC_PICTURE_YUV422_H

#include "tc_picture_yuv422_row.h"

static void tc_picture_yuv422(const tc_picture_yuv422_t *p, const uint8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        tc_picture_yuv422_row(p, x + p->rows[r] * p->line, y);
        y += p->out_w * p->channels;
    }
}

#endif
