/* SPDX-License-Identifier: 0BSD */
/* 3x3 convolution by exact fast forms, int8: m x wide output pixels ("a tile") with p * q products, fewer
 * than 9 * m * wide. Two neighbouring tiles at a time:
 *
 *   vertical    columns of the input, int8 -> strip [step][product row][column], sums over the n rows
 *   horizontal  strip -> factors [product][step][tile], sums over n columns
 *   products    factors times weights -> sums over products -> int8
 *
 * A word of strip and factors is two int16: of input channels 4q, 4q + 2 in step 2q, of 4q + 1, 4q + 3 in
 * step 2q + 1. Products are numbered in the order in which `products` takes them.
 *
 * stream, per four output channels: 4 start values (of the product that all outputs contain); per product and
 * step the weight words of the four channels, first channel of the step in the low half. `packed`: a word for
 * two channels, each half 256 times the weight of the first plus that of the second; the sum of the second is
 * subtracted from the first's. constants, per four output channels and
 * raise: mult, add[, shift or drop] of each channel. weights, of which a stream is made, per four output
 * channels: their start values; per channel and four input channels nine words, one for each tap, column by
 * column: four int8, first channel in the low byte.
 *
 * Sums over products are modulo 2^32; they may be multiples of 3 or 9 that are multiplied by its `inverse`;
 * they are 2^raised times X for some outputs. X becomes y as in tc_stream.h; with `drops`, the high word is
 * not rounded, and for X < 0 the channel's drop is subtracted.
 *
 * The assembly is the compiler's (one set of functions per layer); here are the loop over the tiles and the
 * twins.
 */
#ifndef TC_TILES_H
#define TC_TILES_H

#include "tc_dsp.h"

typedef struct {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t stride, pad_top, pad_left;
    int32_t m, n;    /* output rows, input rows */
    int32_t wide;    /* output columns of a tile */
    int32_t columns; /* of the input of two tiles */
    int32_t carried; /* of them, columns that the next two tiles use again */
    int32_t strip_words, factor_words;
} tc_tiles_t;

typedef void tc_tiles_vertical_t(const int8_t *const *x, int32_t offset, int32_t columns, int32_t *strip);
typedef void tc_tiles_horizontal_t(int32_t *strip, int32_t *factors);
typedef void tc_tiles_products_t(const int32_t *stream, const int32_t *constants, const int32_t *factors,
                                 int8_t *const *y, int32_t groups);
typedef void tc_tiles_weights_t(const int32_t *weights, int32_t groups, int32_t *stream);

typedef struct {
    const int8_t *inside[6], *outside[6]; /* where each input row of a row of tiles begins; zero points */
} tc_tiles_rows_t;

static TC_ALONE TC_UNUSED void tc_tiles_rows(const tc_tiles_t *p, const int8_t *pad, const int8_t *x,
                                             int32_t oy, tc_tiles_rows_t *rows)
{
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t row = oy * p->stride - p->pad_top + i;
        rows->outside[i] = pad;
        rows->inside[i] = row >= 0 && row < p->in_h ? x + row * p->in_w * p->in_c : pad;
    }
}

/* Factors of the two tiles whose first output is in column ox, of a row of tiles from left to right. */
static TC_ALONE TC_UNUSED void tc_tiles_inputs(const tc_tiles_t *p, tc_tiles_vertical_t *vertical,
                                               tc_tiles_horizontal_t *horizontal, const tc_tiles_rows_t *rows,
                                               int32_t ox, int32_t *strip, int32_t *factors)
{
    for (int32_t at = ox ? p->carried : 0, count; at < p->columns; at += count) {
        const int32_t column = ox * p->stride - p->pad_left + at;
        count = 1;
        if (column < 0 || column >= p->in_w) {
            vertical(rows->outside, 0, 1, strip + at);
        } else {
            count = p->columns - at < p->in_w - column ? p->columns - at : p->in_w - column;
            vertical(rows->inside, column * p->in_c, count, strip + at);
        }
    }
    horizontal(strip, factors);
}

/* Groups of four channels of those tiles. spare: m * 2 * wide * out_c bytes where tiles leave the image. */
static TC_ALONE TC_UNUSED void tc_tiles_outputs(const tc_tiles_t *p, tc_tiles_products_t *products,
                                                int32_t groups, const int32_t *stream,
                                                const int32_t *constants, const int32_t *factors, int32_t oy,
                                                int32_t ox, int8_t *y, int8_t *spare)
{
    const int32_t high = p->out_h - oy < p->m ? p->out_h - oy : p->m;
    const int32_t wide = p->out_w - ox < 2 * p->wide ? p->out_w - ox : 2 * p->wide;
    const int whole = high == p->m && wide == 2 * p->wide;
    int8_t *const first = y + (oy * p->out_w + ox) * p->out_c;
    int8_t *const from_first = whole ? first : spare;
    const int32_t apart = (whole ? p->out_w : 2 * p->wide) * p->out_c;
    int8_t *to[4] = {from_first, from_first, from_first, from_first}; /* of zeros compilers make a memset */

    for (int32_t a = 1; a < p->m; a++) {
        to[a] = from_first + a * apart;
    }
    products(stream, constants, factors, to, groups);
    if (!whole) {
        const int32_t out_c = p->out_c, row = p->out_w * out_c, count = 4 * groups;
        for (int32_t a = 0; a < high; a++) {
            const int8_t *from = to[a];
            int8_t *pixel = first + a * row;
            for (int32_t i = 0; i < wide; i++, from += out_c, pixel += out_c) {
                for (int32_t o = 0; o < count; o += 4) {
                    tc_store_word(pixel + o, tc_load_word(from + o));
                }
            }
        }
    }
}

/* x [in_h][in_w][in_c] -> y [out_h][out_w][out_c]. pad: a row of zero points. scratch: strip, factors, and if
 * tiles leave the image m * 2 * wide * out_c bytes. Output rows are written when all calls that read the
 * input rows of earlier ones have ended. */
static TC_ALONE TC_UNUSED void tc_tiles_run(const tc_tiles_t *p, tc_tiles_vertical_t *vertical,
                                            tc_tiles_horizontal_t *horizontal, tc_tiles_products_t *products,
                                            const int32_t *stream, const int32_t *constants,
                                            const int8_t *pad, const int8_t *x, int8_t *y, void *scratch)
{
    int32_t *strip = (int32_t *)scratch, *factors = strip + p->strip_words;
    int8_t *spare = (int8_t *)(factors + p->factor_words);
    tc_tiles_rows_t rows;

    for (int32_t oy = 0; oy < p->out_h; oy += p->m) {
        tc_tiles_rows(p, pad, x, oy, &rows);
        for (int32_t ox = 0; ox < p->out_w; ox += 2 * p->wide) {
            tc_tiles_inputs(p, vertical, horizontal, &rows, ox, strip, factors);
            tc_tiles_outputs(p, products, p->out_c / 4, stream, constants, factors, oy, ox, y, spare);
        }
    }
}

/* The same from int8 weights. scratch begins with the stream that is made of them. */
static TC_ALONE TC_UNUSED void tc_tiles_narrow_run(const tc_tiles_t *p, tc_tiles_weights_t *weights_of,
                                                   tc_tiles_vertical_t *vertical,
                                                   tc_tiles_horizontal_t *horizontal,
                                                   tc_tiles_products_t *products, int32_t stream_words,
                                                   const int32_t *weights, const int32_t *constants,
                                                   const int8_t *pad, const int8_t *x, int8_t *y,
                                                   void *scratch)
{
    int32_t *const stream = (int32_t *)scratch;

    weights_of(weights, p->out_c / 4, stream);
    tc_tiles_run(p, vertical, horizontal, products, stream, constants, pad, x, y, stream + stream_words);
}

typedef struct {
    int32_t tile_rows;                                  /* of a band */
    int32_t pairs;                                      /* of tiles in it */
    int32_t weight_words, constant_words, stream_words; /* of four output channels */
} tc_tiles_bands_t;

/* The same where there is room for the stream of four output channels, and for the factors of a band of
 * tiles: each band takes all weights. scratch: the stream, the strip, factors of `pairs` pairs of tiles, and
 * what `tc_tiles_outputs` may need. All input rows of a band are read before its output is written. */
static TC_ALONE TC_UNUSED void tc_tiles_bands_run(const tc_tiles_t *p, const tc_tiles_bands_t *b,
                                                  tc_tiles_weights_t *weights_of,
                                                  tc_tiles_vertical_t *vertical,
                                                  tc_tiles_horizontal_t *horizontal,
                                                  tc_tiles_products_t *products, const int32_t *weights,
                                                  const int32_t *constants, const int8_t *pad,
                                                  const int8_t *x, int8_t *y, void *scratch)
{
    int32_t *const stream = (int32_t *)scratch, *const strip = stream + b->stream_words,
        *const factors = strip + p->strip_words;
    int8_t *const spare = (int8_t *)(factors + b->pairs * p->factor_words);
    tc_tiles_rows_t rows;

    for (int32_t top = 0; top < p->out_h; top += b->tile_rows * p->m) {
        const int32_t left = p->out_h - top, high = left < b->tile_rows * p->m ? left : b->tile_rows * p->m;
        int32_t *pair = factors;
        for (int32_t oy = top; oy < top + high; oy += p->m) {
            tc_tiles_rows(p, pad, x, oy, &rows);
            for (int32_t ox = 0; ox < p->out_w; ox += 2 * p->wide, pair += p->factor_words) {
                tc_tiles_inputs(p, vertical, horizontal, &rows, ox, strip, pair);
            }
        }
        for (int32_t group = 0; group < p->out_c / 4; group++) {
            weights_of(weights + group * b->weight_words, 1, stream);
            pair = factors;
            for (int32_t oy = top; oy < top + high; oy += p->m) {
                for (int32_t ox = 0; ox < p->out_w; ox += 2 * p->wide, pair += p->factor_words) {
                    tc_tiles_outputs(p, products, 1, stream, constants + group * b->constant_words, pair, oy,
                                     ox, y + 4 * group, spare);
                }
            }
        }
    }
}

#if !TC_DSP_ASM

typedef struct {
    int32_t in_c, out_c, m, wide, n, columns, carried;
    int32_t apart;          /* input columns from tile to tile */
    int32_t p, q;           /* products of rows and of columns */
    int32_t steps, shared;  /* shared: number of the product that all outputs contain, row by row */
    int32_t inverse;        /* that sums are multiplied by */
    int32_t lowers;         /* lowers: raised sums are shifted down, there is one block of constants */
    tc_finish_t finish;
    int32_t packed;         /* two output channels share a word of weights */
    /* packed: bits that sums of the first and second channel are shifted right at first */
    int32_t lowered[2];
    int32_t blocks;         /* of constants */
    const int8_t *inputs;   /* [p or q][n] */
    const int8_t *sums, *sums_across; /* [m][p], [wide][q] */
    const int8_t *taps, *taps_across; /* [p][3], [q][3]: what weights are multiplied by */
    const uint8_t *place;   /* [p][q] number of each product */
    const uint8_t *raised, *raised_across; /* [m], [wide] */
    const uint8_t *block;   /* [raise] number of its constants */
} tc_form_t;

static TC_UNUSED void tc_form_vertical(const tc_form_t *f, const int8_t *const *x, int32_t offset,
                                       int32_t columns, int32_t *strip)
{
    for (int32_t column = 0; column < columns; column++) {
        for (int32_t step = 0; step < f->steps; step++) {
            const int32_t c = step / 2 * 4 + step % 2;
            for (int32_t i = 0; i < f->p; i++) {
                int32_t lo = 0, hi = 0;
                for (int32_t r = 0; r < f->n; r++) {
                    const int8_t *pixel = x[r] + offset + column * f->in_c;
                    lo += f->inputs[i * f->n + r] * (c < f->in_c ? pixel[c] : 0);
                    hi += f->inputs[i * f->n + r] * (c + 2 < f->in_c ? pixel[c + 2] : 0);
                }
                strip[(step * f->p + i) * f->columns + column] = tc_halves(hi, lo);
            }
        }
    }
}

static TC_UNUSED void tc_form_horizontal(const tc_form_t *f, int32_t *strip, int32_t *factors)
{
    for (int32_t step = 0; step < f->steps; step++) {
        for (int32_t i = 0; i < f->p; i++, strip += f->columns) {
            for (int32_t j = 0; j < f->q; j++) {
                for (int32_t tile = 0; tile < 2; tile++) {
                    int32_t lo = 0, hi = 0;
                    for (int32_t c = 0; c < f->n; c++) {
                        const int32_t word = strip[tile * f->apart + c];
                        lo += f->inputs[j * f->n + c] * tc_lo16(word);
                        hi += f->inputs[j * f->n + c] * tc_hi16(word);
                    }
                    factors[(f->place[i * f->q + j] * f->steps + step) * 2 + tile] = tc_halves(hi, lo);
                }
            }
            for (int32_t c = 0; c < f->carried; c++) {
                strip[c] = strip[f->columns - f->carried + c];
            }
        }
    }
}

static TC_UNUSED void tc_form_weights(const tc_form_t *f, const int32_t *weights, int32_t groups,
                                      int32_t *stream)
{
    for (int32_t o = 0; o < 4 * groups; o++) {
        stream[o % 4] = weights[o % 4];
        const int32_t *const words = weights + 4 + o % 4 * (f->steps / 2) * 9;
        for (int32_t step = 0; step < f->steps; step++) {
            for (int32_t i = 0; i < f->p * f->q; i++) {
                int32_t lo = 0, hi = 0;
                for (int32_t tap = 0; tap < 9; tap++) {
                    const int32_t pair = tc_sxtb16(words[step / 2 * 9 + tap] >> step % 2 * 8);
                    const int32_t by = f->taps[i / f->q * 3 + tap % 3] *
                        f->taps_across[i % f->q * 3 + tap / 3];
                    lo += by * tc_lo16(pair);
                    hi += by * tc_hi16(pair);
                }
                stream[4 + (f->place[i] * f->steps + step) * 4 + o % 4] = tc_halves(hi, lo);
            }
        }
        if (o % 4 == 3) {
            weights += 4 + 4 * (f->steps / 2) * 9;
            stream += 4 + f->p * f->q * f->steps * 4;
        }
    }
}

static inline int8_t tc_form_finish(const tc_form_t *f, int32_t sum, int32_t raised, int32_t o,
                                    const int32_t *constants)
{
    const int32_t *k = constants + f->block[raised] * 4 * tc_finish_words(&f->finish, 0);
    return f->lowers ? tc_finish(&f->finish, sum >> raised, o, 0, constants)
                     : tc_finish(&f->finish, sum, o, raised, k);
}

/* A product of output channel o: stream of its group, factors of the product and the tile. */
static inline int32_t tc_form_product(const tc_form_t *f, const int32_t *stream, int32_t place,
                                      const int32_t *factors, int32_t o, int32_t acc)
{
    for (int32_t step = 0; step < f->steps; step++) {
        const int32_t number = place * f->steps + step, x = factors[number * 2];
        if (!f->packed) {
            acc = tc_smlad(x, stream[4 + number * 4 + o], acc);
        } else {
            const int32_t both = stream[4 + number * 2 + o / 2], second = tc_sxtb16(both);
            const int32_t sum = tc_smlad(x, second, o % 2 ? acc : 0);
            acc = o % 2 ? sum : tc_wrap((int64_t)tc_smlad(x, both, acc) - sum);
        }
    }
    return acc;
}

static TC_UNUSED void tc_form_products(const tc_form_t *f, const int32_t *stream, const int32_t *constants,
                                       const int32_t *factors, int8_t *const *y, int32_t groups)
{
    const int32_t words = tc_finish_words(&f->finish, 0),
        weights = f->p * f->q * f->steps * (f->packed ? 2 : 4);
    for (int32_t o = 0; o < 4 * groups; o++) {
        const int32_t *start = stream + o / 4 * (4 + weights),
            *k = constants + o / 4 * f->blocks * 4 * words + o % 4 * words;
        const int32_t over = f->packed && o % 2 == 0 ? start[o % 4 + 1] : 0;
        const int32_t first = tc_wrap((int64_t)start[o % 4] - over);
        const int32_t lowered = f->lowered[o % 2];
        for (int32_t tile = 0; tile < 2; tile++) {
            for (int32_t a = 0; a < f->m; a++) {
                for (int32_t b = 0; b < f->wide; b++) {
                    int32_t sum = 0;
                    for (int32_t i = 0; i < f->p; i++) {
                        for (int32_t j = 0; j < f->q; j++) {
                            const int32_t place = f->place[i * f->q + j];
                            const int32_t from = i * f->q + j == f->shared ? first : 0;
                            const int32_t acc = tc_form_product(f, start, place, factors + tile, o % 4, from);
                            sum = tc_wrap((int64_t)f->sums[a * f->p + i] * f->sums_across[b * f->q + j] *
                                          acc +
                                          sum);
                        }
                    }
                    sum = tc_wrap((int64_t)sum * f->inverse);
                    sum = lowered < 0 ? sum * (1 << -lowered) : sum >> lowered;
                    const int32_t raised = f->raised[a] + f->raised_across[b];
                    y[a][(tile * f->wide + b) * f->out_c + o] = tc_form_finish(f, sum, raised, o, k);
                }
            }
        }
    }
}

#endif
#endif
