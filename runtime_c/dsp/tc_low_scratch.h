/* SPDX-License-Identifier: 0BSD */
/* tc_tiles.h with less scratch: the strip holds four channels at a time and lies on the stack, and columns
 * that two pairs of tiles have in common are made twice. Of these, outputs may be written over those that
 * pad_left counts: they are kept. */
#ifndef TC_LOW_SCRATCH_H
#define TC_LOW_SCRATCH_H

#include "tc_tiles.h"

#define TC_LOW_SCRATCH_STRIP 120 /* words: two steps of six products of ten columns at most */

/* As tc_tiles_run, for stride 1, in_c a multiple of 4, pad_left at most 2 * wide. scratch: factors, n *
 * pad_left * in_c bytes, and if tiles leave the image m * 2 * wide * out_c bytes.
 * vertical and horizontal are for four channels, of pixels of in_c. */
static inline void tc_low_scratch_run(const tc_tiles_t *p, tc_tiles_vertical_t *vertical,
                                      tc_tiles_horizontal_t *horizontal, tc_tiles_products_t *products,
                                      const int32_t *stream, const int32_t *constants, const int8_t *pad,
                                      const int8_t *x, int8_t *y, void *scratch)
{
    int32_t strip[TC_LOW_SCRATCH_STRIP], *factors = (int32_t *)scratch;
    int8_t *kept = (int8_t *)(factors + p->factor_words), *spare = kept + p->n * p->pad_left * p->in_c;
    const int8_t *rows[6], *outside[6], *before[6];
    int8_t *to[4];

    for (int32_t i = 0; i < p->n; i++) {
        outside[i] = pad;
        before[i] = kept + i * p->pad_left * p->in_c;
    }
    for (int32_t oy = 0; oy < p->out_h; oy += p->m) {
        for (int32_t i = 0; i < p->n; i++) {
            const int32_t row = oy - p->pad_top + i;
            rows[i] = row >= 0 && row < p->in_h ? x + row * p->in_w * p->in_c : pad;
        }
        for (int32_t ox = 0; ox < p->out_w; ox += 2 * p->wide) {
            for (int32_t c = 0; c < p->in_c; c += 4) {
                for (int32_t at = 0, count; at < p->columns; at += count) {
                    const int32_t column = ox - p->pad_left + at;
                    count = 1;
                    if (column < 0 || column >= p->in_w) {
                        vertical(outside, 0, 1, strip + at);
                    } else if (ox > 0 && at < p->pad_left) {
                        vertical(before, at * p->in_c + c, 1, strip + at);
                    } else {
                        count = p->columns - at < p->in_w - column ? p->columns - at : p->in_w - column;
                        vertical(rows, column * p->in_c + c, count, strip + at);
                    }
                }
                horizontal(strip, factors + c);
            }
            for (int32_t at = 0; at < p->pad_left; at++) {
                const int32_t column = ox + 2 * p->wide - p->pad_left + at;
                for (int32_t i = 0; i < p->n && column < p->in_w; i++) {
                    const int8_t *from = rows[i] + column * p->in_c;
                    int8_t *keep = kept + (i * p->pad_left + at) * p->in_c;
                    for (int32_t c = 0; c < p->in_c; c += 4) {
                        tc_store_word(keep + c, tc_load_word(from + c));
                    }
                }
            }
            const int32_t high = p->out_h - oy < p->m ? p->out_h - oy : p->m;
            const int32_t wide = p->out_w - ox < 2 * p->wide ? p->out_w - ox : 2 * p->wide;
            int8_t *const first = y + (oy * p->out_w + ox) * p->out_c;
            const int whole = high == p->m && wide == 2 * p->wide;
            for (int32_t a = 0; a < p->m; a++) {
                to[a] = whole ? first + a * p->out_w * p->out_c : spare + a * 2 * p->wide * p->out_c;
            }
            products(stream, constants, factors, to);
            for (int32_t a = 0; !whole && a < high; a++) {
                for (int32_t i = 0; i < wide * p->out_c; i++) {
                    first[a * p->out_w * p->out_c + i] = to[a][i];
                }
            }
        }
    }
}

#endif
