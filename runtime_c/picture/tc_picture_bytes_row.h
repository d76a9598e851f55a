/* SPDX-License-Identifier: 0BSD */
/* Pixels of whole bytes: grey, RGB888, BGR888.
 *
 *   y[r][c] = color of pixel (rows[r], columns[c]) - 128
 *
 * x [..][line] bytes, a pixel is `step` bytes with red, green and blue at these places (grey: all at 0). rows
 * [out_h];
 * columns [out_w], or null: first, first + 1 ... y [out_h][out_w][channels], channels 1 or 3, may not overlap
 * x. The function of a row gets the line rows[r]. No scratch.
 */
#ifndef TC_PICTURE_BYTES_ROW_H
#define TC_PICTURE_BYTES_ROW_H

#include "tc_picture.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t first, line, out_h, out_w, channels;
    int32_t step, red, green, blue;
} tc_picture_bytes_t;

static inline void tc_picture_bytes_row(const tc_picture_bytes_t *p, const uint8_t *x, int8_t *y)
{
    const int32_t channels = p->channels, red = p->red, green = p->green, blue = p->blue;

    for (int32_t c = 0; c < p->out_w; c++) {
        const uint8_t *pixel = x + p->step * (p->columns ? p->columns[c] : p->first + c);
        if (p->step == 1 && channels == 1) {
            *y++ = (int8_t)(pixel[0] - 128);
        } else {
            y = tc_picture_put(y, channels, pixel[red], pixel[green], pixel[blue]);
        }
    }
}

#endif
