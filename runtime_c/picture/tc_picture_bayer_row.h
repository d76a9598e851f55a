/* SPDX-License-Identifier: 0BSD */
/* Pixels of a Bayer mosaic, each with one color of its own; the others are means of the two or four
 * neighbours that have it.
 *
 *   y[r][c] = color of pixel (rows[r], columns[c]) - 128
 *
 * Red lies where row and column have the parity of red_row and red_column, blue where both have the other
 * one. Beyond the border the picture is its mirror image about its outermost row or column. x [height][line]
 * bytes, both at least 2. rows [out_h]; columns [out_w], or null: first, first + 1 ... y
 * [out_h][out_w][channels], channels 1 or 3, may not overlap x. The function of row r gets three lines that
 * hold rows[r] and those beside it, or both where there are two. No scratch.
 */
#ifndef TC_PICTURE_BAYER_ROW_H
#define TC_PICTURE_BAYER_ROW_H

#include "tc_picture.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t first, line, out_h, out_w, channels;
    int32_t height, red_row, red_column;
} tc_picture_bayer_t;

static inline void tc_picture_bayer_line(const tc_picture_bayer_t *p, const uint8_t *const *x, int32_t odd,
                                         int8_t *y)
{
    const uint8_t *up = x[0], *own = x[1], *down = x[2];

    for (int32_t i = 0; i < p->out_w; i++) {
        const int32_t c = p->columns ? p->columns[i] : p->first + i;
        const int32_t left = c > 0 ? c - 1 : 1, right = c < p->line - 1 ? c + 1 : c - 1;
        const int32_t across = own[left] + own[right], along = up[c] + down[c],
            other = (c ^ p->red_column) & 1;
        if (odd == other) { /* red, or where odd blue */
            const int32_t green = (across + along + 2) >> 2;
            const int32_t corner = (up[left] + up[right] + down[left] + down[right] + 2) >> 2;
            y = tc_picture_put(y, p->channels, odd ? corner : own[c], green, odd ? own[c] : corner);
        } else {
            const int32_t flat = (across + 1) >> 1, steep = (along + 1) >> 1;
            y = tc_picture_put(y, p->channels, odd ? steep : flat, own[c], odd ? flat : steep);
        }
    }
}

static inline void tc_picture_bayer_row(const tc_picture_bayer_t *p, const int8_t *const *x, int32_t r,
                                        int8_t *y)
{
    const int32_t row = p->rows[r], height = p->height;
    const int32_t begin = row < 2 ? 0 : row > height - 2 ? tc_clamp(height - 3, 0, height) : row - 1;
    const int32_t up = row > 0 ? row - 1 : 1, down = row < height - 1 ? row + 1 : row - 1;
    const uint8_t *const lines[3] = {(const uint8_t *)x[up - begin], (const uint8_t *)x[row - begin],
                                     (const uint8_t *)x[down - begin]};

    tc_picture_bayer_line(p, lines, (row ^ p->red_row) & 1, y);
}

#endif
