/* SPDX-License-Identifier: 0BSD */
/* Pixels of 16 bits: 5 of red, 6 of green, 5 of blue, red uppermost.
 *
 *   y[r][c] = color of pixel (rows[r], columns[c]) - 128; the upper bits of a color fill its lower ones
 *
 * x [..][line] bytes; high: the place of a pixel's lower byte, so 1 where the upper one comes first. swapped:
 * blue goes first into y. rows [out_h]; columns [out_w], or null: first, first + 1 ... y
 * [out_h][out_w][channels], channels 1 or 3, may not overlap x. The function of a row gets the line rows[r].
 * No scratch.
 */
#ifndef TC_PICTURE_RGB565_ROW_H
#define TC_PICTURE_RGB565_ROW_H

#include "tc_picture.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t first, line, out_h, out_w, channels;
    int32_t high, swapped;
} tc_picture_rgb565_t;

#if TC_PICTURE_WORDS
/* Two pixels at a time: colors in both halves of a word. */
static inline int32_t tc_picture_rgb565_pairs(const uint8_t *x, int8_t *y, int32_t n, int32_t high,
                                              int32_t swapped)
{
    int32_t c = 0;

    for (; c + 2 <= n; c += 2, x += 4, y += 6) {
        const uint32_t word = tc_load_word(x);
        const uint32_t v = high ? (word >> 8 & 0x00ff00ffu) | (word << 8 & 0xff00ff00u) : word;
        const uint32_t r = ((v >> 8 & 0x00f800f8u) | (v >> 13 & 0x00070007u)) ^ 0x00800080u;
        const uint32_t g = ((v >> 3 & 0x00fc00fcu) | (v >> 9 & 0x00030003u)) ^ 0x00800080u;
        const uint32_t b = ((v << 3 & 0x00f800f8u) | (v >> 2 & 0x00070007u)) ^ 0x00800080u;
        const uint32_t begin = swapped ? b : r, end = swapped ? r : b;
        y[0] = (int8_t)begin;
        y[1] = (int8_t)g;
        y[2] = (int8_t)end;
        y[3] = (int8_t)(begin >> 16);
        y[4] = (int8_t)(g >> 16);
        y[5] = (int8_t)(end >> 16);
    }
    return c;
}
#endif

static inline void tc_picture_rgb565_row(const tc_picture_rgb565_t *p, const uint8_t *x, int8_t *y)
{
    int32_t c = 0;

#if TC_PICTURE_WORDS
    if (p->columns == 0 && p->channels == 3) {
        const uint8_t *from = x + 2 * p->first;
        if (p->high) {
            c = tc_picture_rgb565_pairs(from, y, p->out_w, 1, p->swapped);
        } else if (p->swapped) {
            c = tc_picture_rgb565_pairs(from, y, p->out_w, 0, 1);
        } else {
            c = tc_picture_rgb565_pairs(from, y, p->out_w, 0, 0);
        }
        y += 3 * c;
    }
#endif
    for (; c < p->out_w; c++) {
        const uint8_t *pixel = x + 2 * (p->columns ? p->columns[c] : p->first + c);
        const int32_t v = pixel[1 - p->high] << 8 | pixel[p->high];
        const int32_t r = (v >> 8 & 0xf8) | v >> 13, g = (v >> 3 & 0xfc) | (v >> 9 & 3);
        const int32_t b = (v << 3 & 0xf8) | (v >> 2 & 7);
        y = tc_picture_put(y, p->channels, p->swapped ? b : r, g, p->swapped ? r : b);
    }
}

#endif
