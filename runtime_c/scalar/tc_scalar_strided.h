/* SPDX-License-Identifier: 0BSD */
/* 3x3 convolution of stride 2 by an exact fast form on cores without DSP instructions: 2x2 output pixels ("a
 * tile") of 5x5 input pixels with 25 products in the place of 36, and three tiles in two words (tc_scalar.h).
 *
 * In one dimension the outputs of x0 .. x4 are (x0 - x2) w0 + x1 w1 + x2 (w0 + w2) and x2 (w0 + w2) + x3 w1 +
 * (x4 - x2) w2:
 * five products. The way from words of three pixels to words of three outputs is sums and products with the
 * same weights, so it is that of single pixels, modulo 2^32; only the outputs are taken apart. They must stay
 * below 2^20: there are as many segments of channels as that takes, each with its own outputs, which are
 * added.
 *
 * Weights [out_c / 4][segment][product][channels][4], as in tc_scalar_tiles.h; channels: of a segment, a
 * multiple of 4. pad:
 * at least in_c bytes of x_zero. Three tiles' input is read before their outputs are written; tiles go
 * through the image by rows. scratch: factors and sums, words.
 */
#ifndef TC_SCALAR_STRIDED_H
#define TC_SCALAR_STRIDED_H

#include "tc_scalar_tiles.h"

typedef void tc_scalar_strided_store_t(const tc_scalar_out_t *p, const int32_t *sums, int32_t segments,
                                       int32_t o, int32_t lanes, int8_t *const *y);

typedef struct {
    const int16_t *w;
    const int8_t *pad;
    tc_scalar_out_t out;
    int32_t in_h, in_w, in_c, out_h, out_w, pad_top, pad_left;
    int32_t segments, channels;
    tc_scalar_strided_store_t *store;
} tc_scalar_strided_t;

/* n words x -= y. */
static inline void tc_scalar_strided_less(int32_t *x, const int32_t *y, int32_t n)
{
    for (const int32_t *const end = x + n; x < end; x += 4, y += 4) {
        x[0] = (int32_t)((uint32_t)x[0] - (uint32_t)y[0]);
        x[1] = (int32_t)((uint32_t)x[1] - (uint32_t)y[1]);
        x[2] = (int32_t)((uint32_t)x[2] - (uint32_t)y[2]);
        x[3] = (int32_t)((uint32_t)x[3] - (uint32_t)y[3]);
    }
}

/* Pixels [5][5][words] of three tiles -> factors, in place. */
static inline void tc_scalar_strided_factors(int32_t *x, int32_t words)
{
    tc_scalar_strided_less(x, x + 10 * words, 5 * words);
    tc_scalar_strided_less(x + 20 * words, x + 10 * words, 5 * words);
    for (int32_t i = 0; i < 5; i++, x += 5 * words) {
        tc_scalar_strided_less(x, x + 2 * words, words);
        tc_scalar_strided_less(x + 4 * words, x + 2 * words, words);
    }
}

/* A place (0 .. 24) of three tiles, whose pixels are at `from` -> segments [segment][5][5][channels][X1, X2].
 * */
static inline void tc_scalar_strided_place(const tc_scalar_strided_t *p, const int8_t *const *from,
                                           int32_t place, int32_t *to)
{
    const int32_t channels = p->channels;
    for (int32_t first = 0, segment = 0; segment < p->segments; first += channels, segment++) {
        int32_t *words = to + (segment * 25 + place) * 2 * channels;
        int32_t *const end = words + 2 * channels;
        const int32_t n = p->in_c - first < channels ? p->in_c - first : channels;
        words = tc_scalar_pack(from[0] + first, from[1] + first, from[2] + first, n, words);
        while (words < end) {
            *words++ = 0;
        }
    }
}

/* The same of all places of the tiles whose windows begin at (top, left)[3]. */
static inline void tc_scalar_strided_gather(const tc_scalar_strided_t *p, const int8_t *x, const int32_t *top,
                                            const int32_t *left, int32_t *to)
{
    for (int32_t place = 0; place < 25; place++) {
        const int32_t i = place / 5, j = place % 5;
        const int8_t *from[3];
        for (int32_t k = 0; k < 3; k++) {
            const int32_t iy = top[k] + i, ix = left[k] + j;
            const int inside = iy >= 0 && iy < p->in_h && ix >= 0 && ix < p->in_w;
            from[k] = inside ? x + (iy * p->in_w + ix) * p->in_c : p->pad;
        }
        tc_scalar_strided_place(p, from, place, to);
    }
}

/* sums [segment][product][lane][P1, P2] of the channels from o on -> y [output of the tile][tile], where not
 * NULL, channel o and on; finish, clamp: literals. */
TC_INLINE void tc_scalar_strided_store(const tc_scalar_out_t *p, const int32_t *sums, int32_t segments,
                                       int32_t o, int32_t lanes, int8_t *const *y, int32_t finish,
                                       int32_t clamp)
{
    enum { STEP = 2 * TC_SCALAR_TILE_LANES };
    for (const int32_t *const end = sums + 2 * lanes; sums < end; sums += 2, o++) {
        const tc_scalar_channel_t channel = tc_scalar_channel(p, o, finish);
        const int32_t bias = p->bias[o];
        const int32_t *from = sums;
        int32_t acc[12];
        for (int32_t i = 0; i < 12; i++) {
            acc[i] = bias;
        }
        for (int32_t segment = 0; segment < segments; segment++, from += 25 * STEP) {
            uint32_t rows[2][10];
            for (int32_t i = 0; i < 10; i++) {
                const int32_t *const at = from + (i >> 1) * STEP + (i & 1);
                const uint32_t common = (uint32_t)at[10 * STEP];
                rows[0][i] = (uint32_t)at[0] + (uint32_t)at[5 * STEP] + common;
                rows[1][i] = common + (uint32_t)at[15 * STEP] + (uint32_t)at[20 * STEP];
            }
            for (int32_t i = 0; i < 4; i++) {
                const uint32_t *const at = rows[i >> 1] + 4 * (i & 1);
                const int32_t words[2] = {(int32_t)(at[0] + at[2] + at[4]), (int32_t)(at[1] + at[3] + at[5])};
                int32_t tiles[3];
                tc_scalar_split(words, tiles, tiles + 1, tiles + 2);
                acc[3 * i] += tiles[0];
                acc[3 * i + 1] += tiles[1];
                acc[3 * i + 2] += tiles[2];
            }
        }
        for (int32_t i = 0; i < 12; i++) {
            if (!y[i]) continue;
            if (finish) {
                y[i][o] = (int8_t)tc_scalar_finish(acc[i], channel, finish, clamp, p->y_min, p->y_max);
            } else {
                const int32_t v = tc_requantize(acc[i], channel.mult, channel.shift, p->rounds);
                y[i][o] = (int8_t)tc_clamp(v + p->y_zero, p->y_min, p->y_max);
            }
        }
    }
}

#define TC_SCALAR_STRIDED_WAY(way, finish, clamp)                                  \
    static TC_UNUSED void tc_scalar_strided_##way(const tc_scalar_out_t *p, const int32_t *sums,             \
                                                  int32_t segments, int32_t o, int32_t lanes,                \
                                                  int8_t *const *y)                                          \
    {                                                                              \
        tc_scalar_strided_store(p, sums, segments, o, lanes, y, finish, clamp);    \
    }
TC_SCALAR_STRIDED_WAY(0, 0, 0)
TC_SCALAR_STRIDED_WAY(1, 1, 0)
TC_SCALAR_STRIDED_WAY(1c, 1, 1)
TC_SCALAR_STRIDED_WAY(2, 2, 0)
TC_SCALAR_STRIDED_WAY(2c, 2, 1)
TC_SCALAR_STRIDED_WAY(3, 3, 0)
TC_SCALAR_STRIDED_WAY(3c, 3, 1)
#undef TC_SCALAR_STRIDED_WAY

/* Pixels [segment][5][5][channels][X1, X2] of three tiles, the rest of the scratch behind them -> their
 * outputs y [output of the tile][tile]. */
TC_INLINE void tc_scalar_strided_outputs(const tc_scalar_strided_t *p, int32_t *pixels, int8_t *const *y)
{
    const int32_t products = 25 * p->segments, channels = p->channels, out_c = p->out.out_c;
    int32_t *const sums = pixels + 2 * products * channels;

    for (int32_t segment = 0; segment < p->segments; segment++) {
        tc_scalar_strided_factors(pixels + segment * 50 * channels, 2 * channels);
    }
    for (int32_t o = 0; o < out_c; o += TC_SCALAR_TILE_LANES) {
        const int32_t lanes = out_c - o < TC_SCALAR_TILE_LANES ? out_c - o : TC_SCALAR_TILE_LANES;
        tc_scalar_products(pixels, p->w + (o >> 2) * (4 * products * channels) + (o & 3), 8 * channels, sums);
        p->store(&p->out, sums, p->segments, o, lanes, y);
    }
}

/* x [in_h][in_w][in_c] -> y [out_h][out_w][out_c]. */
static TC_UNUSED void tc_conv2d_3x3s2_s8_tiles2_scalar(const tc_scalar_strided_t *p, const int8_t *x,
                                                       int8_t *y, void *scratch)
{
    const int32_t across = (p->out_w + 1) >> 1, tiles = ((p->out_h + 1) >> 1) * across, out_c = p->out.out_c;
    int32_t *const pixels = (int32_t *)scratch;

    for (int32_t tile = 0, ox = 0, oy = 0; tile < tiles; tile += 3) {
        int32_t top[3], left[3];
        int8_t *to[12];
        for (int32_t k = 0; k < 3; k++) {
            const int32_t row = oy, column = ox;
            top[k] = 2 * row - p->pad_top;
            left[k] = 2 * column - p->pad_left;
            for (int32_t i = 0; i < 4; i++) {
                const int32_t at_y = row + (i >> 1), at_x = column + (i & 1);
                to[3 * i + k] = at_y < p->out_h && at_x < p->out_w ? y + (at_y * p->out_w + at_x) * out_c : 0;
            }
            ox += 2;
            if (ox >= p->out_w) {
                ox = 0;
                oy += 2;
            }
        }
        tc_scalar_strided_gather(p, x, top, left, pixels);
        tc_scalar_strided_outputs(p, pixels, to);
    }
}

/* Two or four rows, from row pointers.
 *
 * x: 2 * out_h + 1 rows s8 [in_w][in_c], y: out_h rows [out_w][out_c], out_h 2 or 4; of rows with one pointer
 * the last is left there (four rows: where out_w is more than 4). p: of the layer, with that out_h; in_h and
 * pad_top count for nothing. Tiles go along the rows, then down.
 */
static TC_UNUSED void tc_scalar_strided_rows(const tc_scalar_strided_t *p, const int8_t *const *x,
                                             int8_t *const *y, void *scratch)
{
    const int32_t tiles = (p->out_h >> 1) * ((p->out_w + 1) >> 1), out_c = p->out.out_c;
    int32_t *const pixels = (int32_t *)scratch;

    for (int32_t tile = 0, ox = 0, oy = 0; tile < tiles; tile += 3) {
        const int8_t *const *rows[3];
        int32_t left[3];
        int8_t *to[12];
        for (int32_t k = 0; k < 3; k++) {
            const int inside = oy < p->out_h;
            rows[k] = x + (inside ? 2 * oy : 0);
            left[k] = inside ? 2 * ox - p->pad_left : p->in_w;
            for (int32_t i = 0; i < 4; i++) {
                const int32_t at_x = ox + (i & 1);
                to[3 * i + k] = inside && at_x < p->out_w ? y[oy + (i >> 1)] + at_x * out_c : 0;
            }
            ox += 2;
            if (ox >= p->out_w) {
                ox = 0;
                oy += 2;
            }
        }
        for (int32_t place = 0; place < 25; place++) {
            const int8_t *from[3];
            for (int32_t k = 0; k < 3; k++) {
                const int32_t ix = left[k] + place % 5;
                from[k] = ix >= 0 && ix < p->in_w ? rows[k][place / 5] + ix * p->in_c : p->pad;
            }
            tc_scalar_strided_place(p, from, place, pixels);
        }
        tc_scalar_strided_outputs(p, pixels, to);
    }
}

#endif
