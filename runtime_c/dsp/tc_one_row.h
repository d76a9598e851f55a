/* SPDX-License-Identifier: 0BSD */
/* 3x3 convolution, stride 1, of at most four int8 channels by tiles of 1x4 output pixels, six products each.
 *
 * Two neighbouring tiles at a time, down the image, two output rows from four input rows: these are two pairs
 * of rows, of which the upper one is known from before. A word holds two int16: of a channel in both rows of
 * a pair, upper row in the low half, or of two channels of one row.
 *
 *   columns   pixels of a pair of rows -> strip [channel][column], columns of 10
 *   factors   strip -> factors [output row][product][step][tile]. Steps of the first output row: the upper
 *       pair's
 *             words, then those of the lower pair's first row (`twos`; where one channel is left,
 *                 the pair's word); of
 *             the second: the lower pair's words, then those of the upper pair's second row.
 *   products  as in tc_tiles.h, with a stream of weights for each of the two output rows
 *
 * The assembly is the compiler's (one set of functions per layer); here are the loop over the tiles and the
 * twins.
 */
#ifndef TC_ONE_ROW_H
#define TC_ONE_ROW_H

#include "tc_tiles.h"

#define TC_ONE_ROW_COLUMNS 10
#define TC_ONE_ROW_WIDE 8 /* output columns of two tiles */

typedef struct {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t pad_top, pad_left;
    int32_t pair_words;   /* of the strip and of what `factors` makes of it at first */
    int32_t factor_words; /* of an output row */
} tc_one_row_t;

typedef void tc_one_row_columns_t(const int8_t *upper, const int8_t *lower, int32_t count, int32_t *strip);
typedef void tc_one_row_factors_t(int32_t *strip, int32_t *factors);

/* x [in_h][in_w][in_c] -> y [out_h][out_w][out_c]. streams: of the first and second output row. pad: a row of
 * zero points.
 * scratch: pair_words and twice factor_words, and if tiles leave the image 8 * out_c bytes. */
static inline void tc_one_row_run(const tc_one_row_t *p, tc_one_row_columns_t *columns,
                                  tc_one_row_factors_t *factors_of, tc_tiles_products_t *products,
                                  const int32_t *first, const int32_t *second, const int32_t *constants,
                                  const int8_t *pad, const int8_t *x, int8_t *y, void *scratch)
{
    int32_t *strip = (int32_t *)scratch, *factors = strip + p->pair_words;
    int8_t *spare = (int8_t *)(factors + 2 * p->factor_words);

    for (int32_t ox = 0; ox < p->out_w; ox += TC_ONE_ROW_WIDE) {
        const int32_t left = ox - p->pad_left, wide = p->out_w - ox < TC_ONE_ROW_WIDE ? p->out_w - ox
            : TC_ONE_ROW_WIDE;
        for (int32_t oy = -2; oy < p->out_h; oy += 2) { /* the first time only a pair of rows */
            const int8_t *rows[2];
            for (int32_t i = 0; i < 2; i++) {
                const int32_t row = oy + 2 - p->pad_top + i;
                rows[i] = row >= 0 && row < p->in_h ? x + row * p->in_w * p->in_c : pad;
            }
            for (int32_t at = 0, count; at < TC_ONE_ROW_COLUMNS; at += count) {
                const int32_t column = left + at;
                count = 1;
                if (column < 0 || column >= p->in_w) {
                    columns(pad, pad, 1, strip + at);
                } else {
                    count = TC_ONE_ROW_COLUMNS - at;
                    count = count < p->in_w - column ? count : p->in_w - column;
                    columns(rows[0] + column * p->in_c, rows[1] + column * p->in_c, count, strip + at);
                }
            }
            factors_of(strip, factors);
            for (int32_t i = 0; oy >= 0 && i < 2 && oy + i < p->out_h; i++) {
                int8_t *const to = y + ((oy + i) * p->out_w + ox) * p->out_c;
                int8_t *row = wide == TC_ONE_ROW_WIDE ? to : spare;
                products(i ? second : first, constants, factors + i * p->factor_words, &row, p->out_c / 4);
                for (int32_t j = 0; row == spare && j < wide * p->out_c; j++) {
                    to[j] = spare[j];
                }
            }
        }
    }
}

#if !TC_DSP_ASM

typedef struct {
    int32_t in_c, factor_words, steps;
    const int8_t *twos;   /* [steps - in_c][2] channels of a row's words, -1: the pair's word */
    const int8_t *inputs; /* [6][6] */
    const uint8_t *place; /* [6] number of each product */
} tc_one_row_form_t;

static TC_UNUSED void tc_one_row_columns(int32_t in_c, const int8_t *upper, const int8_t *lower,
                                         int32_t count, int32_t *strip)
{
    for (int32_t i = 0; i < count; i++) {
        for (int32_t c = 0; c < in_c; c++) {
            strip[c * TC_ONE_ROW_COLUMNS + i] = tc_halves(lower[i * in_c + c], upper[i * in_c + c]);
        }
    }
}

/* Words of one row, the low or the high half of the pair's words. */
static inline void tc_one_row_alone(const tc_one_row_form_t *f, const int32_t *words, int32_t high,
                                    int32_t *to)
{
    for (int32_t i = 0; i < 2 * (f->steps - f->in_c); i++) {
        const int32_t first = words[f->twos[i / 2 * 2] * 2 + i % 2], other = f->twos[i / 2 * 2 + 1];
        const int32_t second = other < 0 ? 0 : words[other * 2 + i % 2];
        const int32_t both = high ? tc_halves(tc_hi16(second), tc_hi16(first)) : tc_halves(second,
            tc_lo16(first));
        to[i] = other < 0 ? first : both;
    }
}

static TC_UNUSED void tc_one_row_factors(const tc_one_row_form_t *f, int32_t *strip, int32_t *factors)
{
    for (int32_t j = 0; j < 6; j++) {
        int32_t *above = factors + f->place[j] * f->steps * 2, *below = above + f->factor_words;
        tc_one_row_alone(f, below, 1, below + 2 * f->in_c);
        for (int32_t i = 0; i < 2 * f->in_c; i++) {
            const int32_t *words = strip + i / 2 * TC_ONE_ROW_COLUMNS + i % 2 * 4;
            int32_t lo = 0, hi = 0;
            for (int32_t c = 0; c < 6; c++) {
                lo += f->inputs[j * 6 + c] * tc_lo16(words[c]);
                hi += f->inputs[j * 6 + c] * tc_hi16(words[c]);
            }
            above[i] = below[i];
            below[i] = tc_halves(hi, lo);
        }
        tc_one_row_alone(f, below, 0, above + 2 * f->in_c);
    }
}

#endif
#endif
