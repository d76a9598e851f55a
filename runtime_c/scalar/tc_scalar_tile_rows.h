/* SPDX-License-Identifier: 0BSD */
/* One, two or four rows of a 3x3 convolution of stride 1 by exact fast forms, from row pointers, on cores
 * without DSP instructions: tiles of mv x mh outputs, mv = 1, 2 or 4 and mh = 2 or 4, two neighbours at a
 * time.
 *
 * Rows and columns of a tile have the forms of tc_scalar_tiles.h, one row is 3 products for 3 taps. Products
 * (mv + 2) * (mh + 2), weights [out_c / 4][product][channels][4], and steps are those there; the strip is as
 * wide as two tiles, of a few channels, and lies where their sums come. Sums are 4 times the accumulator
 * (weights of one row are doubled), times 3 for each form of 4 outputs, which the inverse of 3 or 9 takes
 * out, times 2^raised.
 *
 * x: mv + 2 rows s8 [in_w][in_c], y: mv rows [out_w][out_c]; of rows with one pointer the last is left there.
 * Columns outside are p->pad. in_place: a row of y may be one of the first mv of x; then in_c is out_c,
 * pad_left 1, and the column that the next tiles need beside those that they overwrite is kept. narrow:
 * factors are int16, which all are: half of their bytes, for an instruction or more per channel, on RISC-V
 * for nothing. There they are always so, and 8 output channels share what is loaded if `lanes` is 8, else 4;
 * the other cores have registers for 4 or 2.
 *
 * scratch: words; factors [product][channels][2], sums [product][lanes][2] int32, and in place mv * in_c
 * bytes.
 */
#ifndef TC_SCALAR_TILE_ROWS_H
#define TC_SCALAR_TILE_ROWS_H

#include "tc_scalar_narrow_products.h"
#include "tc_scalar_tiles.h"

#if TC_SCALAR_TILE_LANES == 2
#define TC_SCALAR_ROW_LANES 2
#else
#define TC_SCALAR_ROW_LANES 4
#endif

typedef void tc_scalar_tile_rows_store_t(const tc_scalar_out_t *p, int32_t *sums, int32_t o, int32_t lanes,
                                         int8_t *const *y, int32_t at, int32_t wide);

typedef struct {
    const int16_t *w;
    const int8_t *pad; /* [in_c] at least */
    tc_scalar_out_t out;
    tc_scalar_tile_rows_store_t *store;
} tc_scalar_tile_rows_t;

/* ---- the input's side ---- */

/* One column of `count` channels, from mv + 2 rows -> strip [channel][row][column]; mv: a literal. */
TC_INLINE void tc_scalar_tile_rows_column(int32_t mv, const int8_t *const *x, int32_t count, int32_t columns,
                                          int16_t *to)
{
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = mv > 1 ? x[3] : x0, *x4 = mv == 4 ? x[4] : x0;
    const int8_t *x5 = mv == 4 ? x[5] : x0;
    for (const int8_t *const end = x0 + count; x0 < end; to += (mv + 2) * columns) {
        const int32_t from[6] = {*x0++, *x1++, *x2++, mv > 1 ? *x3++ : 0, mv == 4 ? *x4++ : 0,
            mv == 4 ? *x5++ : 0};
        int32_t t[6] = {from[0], from[1], from[2], 0, 0, 0};
        if (mv > 1) tc_scalar_tiles_input(mv, from, t);
        to[0] = (int16_t)t[0];
        to[columns] = (int16_t)t[1];
        to[2 * columns] = (int16_t)t[2];
        if (mv > 1) to[3 * columns] = (int16_t)t[3];
        if (mv == 4) {
            to[4 * columns] = (int16_t)t[4];
            to[5 * columns] = (int16_t)t[5];
        }
    }
}

/* A factor to place `at` of int32, or of int16 ones. */
TC_INLINE void tc_scalar_tile_rows_put(void *to, int32_t at, int32_t value, int32_t narrow)
{
    if (narrow) {
        ((int16_t *)to)[at] = (int16_t)value;
    } else {
        ((int32_t *)to)[at] = value;
    }
}

/* The strip of `count` channels -> factors of two tiles, of which product 0 of the first channel is at place
 * `first`; mv, mh, narrow: literals. */
TC_INLINE void tc_scalar_tile_rows_factors(int32_t mv, int32_t mh, int32_t narrow, const int16_t *strip,
                                           int32_t count, int32_t channels, void *to, int32_t first)
{
    const int32_t step = 2 * channels;
    for (const int32_t end = first + 2 * count; first < end; first += 2) {
        int32_t place = first;
        for (int32_t i = 0; i < mv + 2; i++, strip += 2 * mh + 2, place += (mh + 2) * step) {
            for (int32_t tile = 0; tile < 2; tile++) {
                const int16_t *const x = strip + tile * mh;
                const int32_t from[6] = {x[0], x[1], x[2], x[3], mh == 4 ? x[4] : 0, mh == 4 ? x[5] : 0};
                int32_t t[6];
                tc_scalar_tiles_input(mh, from, t);
                tc_scalar_tile_rows_put(to, place + tile, t[0], narrow);
                tc_scalar_tile_rows_put(to, place + step + tile, t[1], narrow);
                tc_scalar_tile_rows_put(to, place + 2 * step + tile, t[2], narrow);
                tc_scalar_tile_rows_put(to, place + 3 * step + tile, t[3], narrow);
                if (mh == 4) {
                    tc_scalar_tile_rows_put(to, place + 4 * step + tile, t[4], narrow);
                    tc_scalar_tile_rows_put(to, place + 5 * step + tile, t[5], narrow);
                }
            }
        }
    }
}

/* ---- the output's side ---- */

/* A sum that is 4 * 2^raised times an accumulator, times 3 for each form of 4 outputs -> int8; mv, mh,
 * finish, clamp: literals. */
TC_INLINE int8_t tc_scalar_tile_rows_output(int32_t mv, int32_t mh, const tc_scalar_out_t *p,
                                            tc_scalar_channel_t channel, uint32_t sum, int32_t raised,
                                            int32_t finish, int32_t clamp)
{
    if (mv == 4 || mh == 2) return tc_scalar_tiles_output(mh, p, channel, sum, raised, finish, clamp);
    /* 1/3 modulo 2^32 */
    return tc_scalar_tiles_output(2, p, channel, sum * 2863311531u, raised, finish, clamp);
}

/* sums [product][lane][2] of one tile and the channels from o on -> `wide` columns of the rows y from byte
 * `at` on; changes sums.
 * apart: words from a product to the next. mv, mh, apart, finish, clamp: literals. */
TC_INLINE void tc_scalar_tile_rows_store(int32_t mv, int32_t mh, int32_t apart, const tc_scalar_out_t *p,
                                         int32_t *sums, int32_t o, int32_t lanes, int8_t *const *y,
                                         int32_t at, int32_t wide, int32_t finish, int32_t clamp)
{
    const int32_t nh = mh + 2, step = p->out_c;
    for (const int32_t *const end = sums + 2 * lanes; sums < end; sums += 2, o++) {
        const tc_scalar_channel_t channel = tc_scalar_channel(p, o, finish);
        uint32_t rows[4 * 6], *const products = (uint32_t *)(void *)sums;
        products[((mv > 1 ? nh : 0) + 1) * apart] += (uint32_t)(p->bias[o] * (mv == 4 ? 36 : mh == 4 ? 12
            : 4));
        for (int32_t j = 0; j < nh; j++) {
            const uint32_t *const down = products + j * apart;
            if (mv == 1) {
                rows[j] = down[0] + down[nh * apart] + down[2 * nh * apart];
            } else {
                tc_scalar_tiles_sums(mv, down, nh * apart, rows + j, nh);
            }
        }
        for (int32_t a = 0; a < mv; a++) {
            const int32_t raised = mv == 4 && a < 2 ? 2 - a : 0;
            int8_t *const to = y[a] + at + o;
            uint32_t sum[4];
            tc_scalar_tiles_sums(mh, rows + a * nh, 1, sum, 1);
            to[0] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[0], raised + (mh == 4 ? 2 : 0), finish,
                                               clamp);
            if (wide == 1) continue;
            to[step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[1], raised + (mh == 4), finish,
                                                  clamp);
            if (mh == 2 || wide == 2) continue;
            to[2 * step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[2], raised, finish, clamp);
            if (wide == 3) continue;
            to[3 * step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[3], raised, finish, clamp);
        }
    }
}

/* How many output channels share what is loaded, where the scratch has room for 4 or 8 of them. */
#if TC_SCALAR_TILE_LANES == 8
#define TC_SCALAR_LANES_OF(lanes) (lanes)
#else
#define TC_SCALAR_LANES_OF(lanes) TC_SCALAR_ROW_LANES
#endif

#define TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, way, finish, clamp)                  \
    static TC_UNUSED void tc_scalar_tile_rows##mv##x##mh##x##most##_##way(  \
        const tc_scalar_out_t *p, int32_t *sums, int32_t o, int32_t lanes, int8_t *const *y, int32_t at,     \
            int32_t wide)                                                                                    \
    {                                                                              \
        tc_scalar_tile_rows_store(mv, mh, 2 * TC_SCALAR_LANES_OF(most), p, sums, o, lanes, y, at, wide,      \
                                  finish, clamp);                                                            \
    }
#define TC_SCALAR_TILE_ROWS_WAYS(mv, mh, most)                                     \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 0, 0, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 1, 1, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 1c, 1, 1)                                \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 2, 2, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 2c, 2, 1)                                \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 3, 3, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 3c, 3, 1)
TC_SCALAR_TILE_ROWS_WAYS(1, 2, 4)
TC_SCALAR_TILE_ROWS_WAYS(1, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(2, 2, 4)
TC_SCALAR_TILE_ROWS_WAYS(2, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(4, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(1, 2, 8)
TC_SCALAR_TILE_ROWS_WAYS(1, 4, 8)
TC_SCALAR_TILE_ROWS_WAYS(2, 2, 8)
TC_SCALAR_TILE_ROWS_WAYS(2, 4, 8)
TC_SCALAR_TILE_ROWS_WAYS(4, 4, 8)
#undef TC_SCALAR_TILE_ROWS_WAYS
#undef TC_SCALAR_TILE_ROWS_WAY

/* ---- the rows ---- */

/* The products of as many output channels as TC_SCALAR_LANES_OF(lanes) says. */
TC_INLINE void tc_scalar_tile_rows_products(int32_t lanes, int32_t narrow, const void *factors,
                                            const int16_t *w, int32_t channels, int32_t *sums)
{
#if TC_SCALAR_TILE_LANES == 8
    if (lanes == 4) {
        tc_scalar_narrow_products4((const int16_t *)factors, w, 4 * channels, sums);
        return;
    }
#else
    (void)lanes;
#endif
    if (narrow) {
        tc_scalar_narrow_products((const int16_t *)factors, w, 4 * channels, sums);
    } else {
        tc_scalar_products((const int32_t *)factors, w, 8 * channels, sums);
    }
}

/* All but the pointers are literals. */
TC_INLINE void tc_scalar_tile_rows_run(const tc_scalar_tile_rows_t *p, const int8_t *const *x,
                                       int8_t *const *y, void *scratch, int32_t mv, int32_t mh, int32_t lanes,
                                       int32_t narrow, int32_t in_place, int32_t in_w, int32_t in_c,
                                       int32_t out_w, int32_t out_c, int32_t pad_left)
{
    const int32_t nv = mv + 2, count = nv * (mh + 2), channels = (in_c + 3) & ~3, columns = 2 * mh + 2;
    /* channels of a strip; of products */
    const int32_t part = 2 * lanes, at_a_time = TC_SCALAR_LANES_OF(lanes);
    const int32_t halves = narrow || TC_SCALAR_TILE_LANES == 8;
    int32_t *const sums = (int32_t *)scratch + (halves ? 1 : 2) * count * channels;
    int16_t *const strip = (int16_t *)(void *)sums;
    int8_t *const kept = (int8_t *)(sums + 2 * lanes * count);

    for (int32_t ox = 0; ox < out_w; ox += 2 * mh) {
        const int32_t wide = out_w - ox;
        for (int32_t first = 0; first < channels; first += part) {
            const int32_t rest = channels - first < part ? channels - first : part;
            const int32_t real = in_c - first < rest ? in_c - first : rest;
            for (int32_t column = 0; column < columns; column++) {
                const int32_t ix = ox - pad_left + column;
                const int8_t *rows[6];
                for (int32_t i = 0; i < nv; i++) {
                    if (ix < 0 || ix >= in_w) {
                        rows[i] = p->pad;
                    } else {
                        rows[i] = (in_place && column == 0 &&
                                   i < mv ? kept + i * in_c : x[i] + ix * in_c) + first;
                    }
                }
                tc_scalar_tile_rows_column(mv, rows, real, columns, strip + column);
            }
            tc_scalar_tile_rows_factors(mv, mh, halves, strip, rest, channels, scratch, 2 * first);
        }
        if (in_place && wide > 2 * mh) {
            for (int32_t i = 0; i < mv; i++) {
                const int8_t *const from = x[i] + (ox + 2 * mh - 1) * in_c;
                for (int32_t c = 0; c < in_c; c++) {
                    kept[i * in_c + c] = from[c];
                }
            }
        }
        for (int32_t o = 0; o < out_c; o += at_a_time) {
            const int32_t these = out_c - o < at_a_time ? out_c - o : at_a_time;
            const int16_t *const w = p->w + (o >> 2) * (4 * count * channels) + (o & 3);
            tc_scalar_tile_rows_products(lanes, halves, scratch, w, channels, sums);
            p->store(&p->out, sums, o, these, y, ox * out_c, wide < mh ? wide : mh);
            if (wide > mh) {
                p->store(&p->out, sums + 1, o, these, y, (ox + mh) * out_c, wide < 2 * mh ? wide - mh : mh);
            }
        }
    }
}

#endif
