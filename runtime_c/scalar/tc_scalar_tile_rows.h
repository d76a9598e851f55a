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
        const tc_scalar_tiles_place_t place = {1, y, 0, at, 0};                    \
        tc_scalar_tiles_store(mv, mh, 2 * TC_SCALAR_LANES_OF(most), p, sums, o, lanes, place, mv, wide,      \
                              finish, clamp);                                      \
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
                tc_scalar_tiles_column(mv, rows, real, columns, strip + column);
            }
            tc_scalar_tiles_factors(mv, mh, halves, strip, columns, rest, channels, scratch, 2 * first);
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
