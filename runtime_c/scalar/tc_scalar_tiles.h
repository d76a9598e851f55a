/* SPDX-License-Identifier: 0BSD */
/* 3x3 convolution of stride 1 by exact fast forms on cores without DSP instructions: m x m output pixels ("a
 * tile", m = 2 or 4) of n x n input pixels, n = m + 2, with n * n products in the place of 9 * m * m. Two
 * neighbouring tiles at a time:
 *
 *   lines     six (four) rows of the input, int8 -> strip [channel][row][column], sums over the rows of a
 *             tile
 *   factors   strip -> factors [product][channel][tile], sums over its columns
 *   products  factors times weights, summed over channels -> sums [product][lane][tile]
 *   store     sums over products -> accumulators -> int8
 *
 * Everything is modulo 2^32, so no factor has to be small; only the multiple of the accumulator that comes
 * out has to fit:
 * 4 times it for m = 2, times up to 64 for m = 4 once it was multiplied by the inverse of 9. Columns outside
 * the image, and the row p->pad, are x_zero. Weights are those of tinyc/kernels/fast/bilinear.py, [out_c /
 * 4][product][channels][4], as many fours of output channels as a call takes; channels: in_c rounded up to a
 * multiple of 4. The bias times 4 or 36 is added to the product (1, 1), which all outputs contain.
 *
 * Lines and factors are inlined into the function of a layer, whose sizes are literals. The products are in
 * assembly, whose registers hold the sums of two tiles and TC_SCALAR_TILE_LANES output channels; no access is
 * unaligned.
 */
#ifndef TC_SCALAR_TILES_H
#define TC_SCALAR_TILES_H

#include "tc_scalar.h"
#include "tc_scalar_products.h"

typedef void tc_scalar_tiles_store_t(const tc_scalar_out_t *p, int32_t *sums, int32_t o, int32_t lanes,
                                     int8_t *y, int32_t row, int32_t high, int32_t wide);

typedef struct {
    const int16_t *w;
    const int8_t *pad; /* [in_w][in_c] */
    tc_scalar_out_t out;
    tc_scalar_tiles_store_t *store;
} tc_scalar_tiles_t;

/* ---- the input's side ---- */

/* The input's side of the products in one dimension: x [m + 2], 2^24 at most each -> t [m + 2]; m: a literal.
 * */
TC_INLINE void tc_scalar_tiles_input(int32_t m, const int32_t *x, int32_t *t)
{
    if (m == 2) {
        t[0] = x[0] - x[2];
        t[1] = x[1] + x[2];
        t[2] = x[2] - x[1];
        t[3] = x[1] - x[3];
    } else {
        const int32_t near = x[3] - x[1], even = x[4] - x[2];
        const int32_t odd = x[3] - 4 * x[1], far = x[4] - 4 * x[2], twice = 2 * near;
        t[0] = 4 * (x[0] - x[2]) + even;
        t[1] = far + odd;
        t[2] = far - odd;
        t[3] = even + twice;
        t[4] = even - twice;
        t[5] = x[5] - x[3] - 2 * twice;
    }
}

/* One column of `count` channels, from mv + 2 rows -> to [channel][row], `columns` halves apart; mv: a
 * literal. */
TC_INLINE void tc_scalar_tiles_column(int32_t mv, const int8_t *const *x, int32_t count, int32_t columns,
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
TC_INLINE void tc_scalar_tiles_put(void *to, int32_t at, int32_t value, int32_t narrow)
{
    if (narrow) {
        ((int16_t *)to)[at] = (int16_t)value;
    } else {
        ((int32_t *)to)[at] = value;
    }
}

/* Rows of a strip, from the first column of two tiles on, of `count` channels -> their factors, of which
 * product 0 of the first channel is at place `first`; mv, mh, narrow: literals. */
TC_INLINE void tc_scalar_tiles_factors(int32_t mv, int32_t mh, int32_t narrow, const int16_t *strip,
                                       int32_t columns, int32_t count, int32_t channels, void *to,
                                       int32_t first)
{
    const int32_t step = 2 * channels;
    for (const int32_t end = first + 2 * count; first < end; first += 2) {
        int32_t place = first;
        for (int32_t i = 0; i < mv + 2; i++, strip += columns, place += (mh + 2) * step) {
            for (int32_t tile = 0; tile < 2; tile++) {
                const int16_t *const x = strip + tile * mh;
                const int32_t from[6] = {x[0], x[1], x[2], x[3], mh == 4 ? x[4] : 0, mh == 4 ? x[5] : 0};
                int32_t t[6];
                tc_scalar_tiles_input(mh, from, t);
                tc_scalar_tiles_put(to, place + tile, t[0], narrow);
                tc_scalar_tiles_put(to, place + step + tile, t[1], narrow);
                tc_scalar_tiles_put(to, place + 2 * step + tile, t[2], narrow);
                tc_scalar_tiles_put(to, place + 3 * step + tile, t[3], narrow);
                if (mh == 4) {
                    tc_scalar_tiles_put(to, place + 4 * step + tile, t[4], narrow);
                    tc_scalar_tiles_put(to, place + 5 * step + tile, t[5], narrow);
                }
            }
        }
    }
}

/* ---- the output's side ---- */

/* Products m [n], `step` words apart -> sums [m], which are 6 times (24, 12, 6, 6 times) the output; modulo
 * 2^32. */
TC_INLINE void tc_scalar_tiles_sums(int32_t m, const uint32_t *p, int32_t step, uint32_t *sums, int32_t apart)
{
    const uint32_t p0 = p[0], p1 = p[step], p2 = p[2 * step], p3 = p[3 * step];
    const uint32_t sum = p1 + p2, difference = p1 - p2;
    if (m == 2) {
        sums[0] = p0 + sum;
        sums[apart] = difference + p3;
    } else {
        const uint32_t p4 = p[4 * step], p5 = p[5 * step];
        const uint32_t outer = p3 + p4, slope = p3 - p4;
        sums[0] = p0 + 4 * sum + outer;
        sums[apart] = 2 * difference + slope;
        sums[2 * apart] = sum + outer;
        sums[3 * apart] = difference + 2 * slope + p5;
    }
}

/* A sum that is 4 * 2^raised times an accumulator (after 1/9 modulo 2^32) -> int8; m, raised, finish, clamp:
 * literals. */
TC_INLINE int8_t tc_scalar_tiles_output(int32_t m, const tc_scalar_out_t *p, tc_scalar_channel_t channel,
                                        uint32_t sum, int32_t raised, int32_t finish, int32_t clamp)
{
    const int32_t x = (int32_t)(m == 2 ? sum : sum * 954437177u), least = p->y_min, greatest = p->y_max;
    if (finish == 0) {
        const int32_t v = tc_requantize(x >> (2 + raised), channel.mult, channel.shift, p->rounds);
        return (int8_t)tc_clamp(v + p->y_zero, least, greatest);
    }
#if TC_SCALAR_LONG
    /* tc_scalar_finish of twice the accumulator times 2^(1 + raised): its power of two is shifted out at the
     * end. */
    int32_t v = ((int32_t)(((int64_t)x * channel.mult) >> 32) + (finish > 1 ? 1 << raised : 0)) >> (1 +
        raised);
    v += finish == 3 ? channel.c + (v >> 31) : channel.c;
    return (int8_t)tc_scalar_clamp(v >> channel.shift, clamp, least, greatest);
#else
    return (int8_t)tc_scalar_finish(x >> (2 + raised), channel, finish, clamp, least, greatest);
#endif
}

/* A sum that is 4 * 2^raised times an accumulator, times 3 for each form of 4 outputs -> int8; mv, mh,
 * finish, clamp: literals. */
TC_INLINE int8_t tc_scalar_tiles_scaled(int32_t mv, int32_t mh, const tc_scalar_out_t *p,
                                            tc_scalar_channel_t channel, uint32_t sum, int32_t raised,
                                            int32_t finish, int32_t clamp)
{
    if (mv == 4 || mh == 2) return tc_scalar_tiles_output(mh, p, channel, sum, raised, finish, clamp);
    /* 1/3 modulo 2^32 */
    return tc_scalar_tiles_output(2, p, channel, sum * 2863311531u, raised, finish, clamp);
}

/* Where outputs of a tile go: to byte `at` of rows, a literal says whether, or to y and on, `row` bytes
 * apart. */
typedef struct {
    int32_t by_rows;
    int8_t *const *rows, *y;
    int32_t at, row;
} tc_scalar_tiles_place_t;

/* sums [product][lane][2] of one tile and the channels from o on -> [high][wide][out_c]; changes sums. apart:
 * words from a product to the next. mv, mh, apart, finish, clamp: literals. */
TC_INLINE void tc_scalar_tiles_store(int32_t mv, int32_t mh, int32_t apart, const tc_scalar_out_t *p,
                                     int32_t *sums, int32_t o, int32_t lanes, tc_scalar_tiles_place_t place,
                                     int32_t high, int32_t wide, int32_t finish, int32_t clamp)
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
        for (int32_t a = 0; a < high; a++) {
            const int32_t raised = mv == 4 && a < 2 ? 2 - a : 0;
            int8_t *const to = (place.by_rows ? place.rows[a] + place.at : place.y + a * place.row) + o;
            uint32_t sum[4];
            tc_scalar_tiles_sums(mh, rows + a * nh, 1, sum, 1);
            to[0] = tc_scalar_tiles_scaled(mv, mh, p, channel, sum[0], raised + (mh == 4 ? 2 : 0), finish,
                                               clamp);
            if (wide == 1) continue;
            to[step] = tc_scalar_tiles_scaled(mv, mh, p, channel, sum[1], raised + (mh == 4), finish,
                                                  clamp);
            if (mh == 2 || wide == 2) continue;
            to[2 * step] = tc_scalar_tiles_scaled(mv, mh, p, channel, sum[2], raised, finish, clamp);
            if (wide == 3) continue;
            to[3 * step] = tc_scalar_tiles_scaled(mv, mh, p, channel, sum[3], raised, finish, clamp);
        }
    }
}

#define TC_SCALAR_TILES_WAY(m, way, finish, clamp)                                 \
    static TC_UNUSED void tc_scalar_tiles##m##_##way(const tc_scalar_out_t *p, int32_t *sums, int32_t o,     \
                                                     int32_t lanes, int8_t *y, int32_t row, int32_t high,    \
                                                     int32_t wide)                                           \
    {                                                                              \
        const tc_scalar_tiles_place_t place = {0, 0, y, 0, row};                   \
        tc_scalar_tiles_store(m, m, 2 * TC_SCALAR_TILE_LANES, p, sums, o, lanes, place, high, wide, finish,  \
                              clamp);                                              \
    }
#define TC_SCALAR_TILES_WAYS(m)                                                    \
    TC_SCALAR_TILES_WAY(m, 0, 0, 0)                                                \
    TC_SCALAR_TILES_WAY(m, 1, 1, 0)                                                \
    TC_SCALAR_TILES_WAY(m, 1c, 1, 1)                                               \
    TC_SCALAR_TILES_WAY(m, 2, 2, 0)                                                \
    TC_SCALAR_TILES_WAY(m, 2c, 2, 1)                                               \
    TC_SCALAR_TILES_WAY(m, 3, 3, 0)                                                \
    TC_SCALAR_TILES_WAY(m, 3c, 3, 1)
TC_SCALAR_TILES_WAYS(2)
TC_SCALAR_TILES_WAYS(4)
#undef TC_SCALAR_TILES_WAYS
#undef TC_SCALAR_TILES_WAY

/* ---- the layer ---- */

/* x [in_h][in_w][in_c] -> y [out_h][out_w][out_c]; all but the pointers are literals. scratch: factors and
 * sums as words, then the strip as int16. An output row is written when the input rows that tiles of m output
 * rows need have been read. */
TC_INLINE void tc_scalar_tiles_run(const tc_scalar_tiles_t *p, const int8_t *x, int8_t *y, void *scratch,
                                   int32_t m, int32_t in_h, int32_t in_w, int32_t in_c, int32_t out_h,
                                   int32_t out_w, int32_t out_c, int32_t pad_top, int32_t pad_left)
{
    const int32_t n = m + 2, channels = (in_c + 3) & ~3,
        columns = (out_w + 2 * m - 1) / (2 * m) * (2 * m) + 2;
    int32_t *const factors = (int32_t *)scratch, *const sums = factors + 2 * n * n * channels;
    int16_t *const strip = (int16_t *)(void *)(sums + 2 * n * n * TC_SCALAR_TILE_LANES);

    for (int32_t i = 0; i < channels * n * columns; i++) {
        strip[i] = 0; /* of channels beyond the last */
    }
    for (int32_t oy = 0; oy < out_h; oy += m) {
        const int32_t high = out_h - oy < m ? out_h - oy : m;
        for (int32_t column = 0; column < columns; column++) {
            const int32_t ix = column - pad_left;
            const int8_t *rows[6];
            for (int32_t i = 0; i < n; i++) {
                const int32_t iy = oy - pad_top + i;
                rows[i] = ix >= 0 && ix < in_w && iy >= 0 && iy < in_h ? x + (iy * in_w + ix) * in_c : p->pad;
            }
            tc_scalar_tiles_column(m, rows, in_c, columns, strip + column);
        }
        for (int32_t ox = 0; ox < out_w; ox += 2 * m) {
            int8_t *const to = y + (oy * out_w + ox) * out_c;
            const int32_t wide = out_w - ox;
            const int16_t *w = p->w;
            tc_scalar_tiles_factors(m, m, 0, strip + ox, columns, channels, channels, factors, 0);
            for (int32_t o = 0; o < out_c; o += TC_SCALAR_TILE_LANES) {
                const int32_t lanes = out_c - o < TC_SCALAR_TILE_LANES ? out_c - o : TC_SCALAR_TILE_LANES;
                tc_scalar_products(factors, w + (o >> 2) * (4 * n * n * channels) + (o & 3), 8 * channels,
                                   sums);
                p->store(&p->out, sums, o, lanes, to, out_w * out_c, high, wide < m ? wide : m);
                if (wide > m) {
                    const int32_t rest = wide - m < m ? wide - m : m;
                    p->store(&p->out, sums + 1, o, lanes, to + m * out_c, out_w * out_c, high, rest);
                }
            }
        }
    }
}

#endif
