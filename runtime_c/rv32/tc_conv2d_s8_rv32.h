/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution on RV32IM (tc_rv32.h), a tile of pixels and channels at a time.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] *
 *       w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points; a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * w [out_c / lanes][taps][lanes], taps = k_h * k_w * in_c rounded up to a multiple of 4, zeros beyond the
 * last channel and tap.
 * scratch: 8 * groups bytes for each tap, on a word. A group's pixels are read before it is written.
 * segment: taps, a multiple of 4, over which no |sum of x * w| reaches 2^20.
 */
#ifndef TC_CONV2D_S8_RV32_H
#define TC_CONV2D_S8_RV32_H

#include "tc_band.h"
#include "tc_rv32.h"

typedef struct {
    const int8_t *w;
    tc_rv32_out_t out;
    tc_scalar_window_t window;
    int32_t taps, segment;
} tc_conv2d_s8_rv32_t;

/* n <= 3 * groups packed pixels -> y [n][out_c]. */
static TC_UNUSED void tc_conv2d_s8_rv32_pixels(const tc_conv2d_s8_rv32_t *p, const tc_rv32_tile_t *tile,
                                               const int32_t *packed, int32_t n, int8_t *y)
{
    const int32_t out_c = p->out.out_c, lanes = tile->lanes, groups = tile->groups, words = 2 * groups;
    const int8_t *w = p->w;
    int32_t o = 0;
    if (tile->blocks) {
        int32_t places[6];
        for (int32_t i = 0; i < 3 * groups; i++) {
            places[i] = out_c * (i < n ? i : n - 1);
        }
        tile->blocks(packed, w, p->taps >> 2, &p->out, out_c / lanes, y, places);
        o = out_c / lanes * lanes;
        w += o * p->taps;
    }
    for (; tile->dot && o < out_c; o += lanes, w += lanes * p->taps) {
        int32_t sums[16], acc[24];
        int32_t done = 0;
        if (p->taps > p->segment) {
            tc_clear(acc, 24);
            for (; done + p->segment < p->taps; done += p->segment) {
                tile->dot(packed + words * done, w + lanes * done, p->segment >> 2, sums);
                tc_rv32_add(sums, groups * lanes, acc);
            }
        }
        tile->dot(packed + words * done, w + lanes * done, (p->taps - done) >> 2, sums);
        for (int32_t group = 0; group < groups && 3 * group < n; group++) {
            const int32_t left = n - 3 * group, first = group * lanes;
            tc_rv32_store(&p->out, sums + 2 * first, done ? acc + 3 * first : 0, o, lanes,
                          left < 3 ? left : 3, y + 3 * group * out_c);
        }
    }
}

static TC_UNUSED void tc_conv2d_s8_rv32(const tc_conv2d_s8_rv32_t *p, const tc_rv32_tile_t *tile,
                                        const int8_t *const *x, int8_t *y, void *scratch)
{
    int32_t *const packed = (int32_t *)scratch;
    const int32_t out_w = p->window.out_w, pixels = 3 * tile->groups;

    for (int32_t ox = 0; ox < out_w; ox += pixels, y += pixels * p->out.out_c) {
        const int32_t n = out_w - ox < pixels ? out_w - ox : pixels;
        if (tile->groups == 1) {
            tc_rv32_gather(&p->window, x, ox, n, p->taps, packed);
        } else {
            tc_rv32_gather6(&p->window, x, ox, n, p->taps, packed);
        }
        tc_conv2d_s8_rv32_pixels(p, tile, packed, n, y);
    }
}

/* Several rows of 1x1 taps, pixels of neighbouring rows together: x, y: `rows` row pointers; of rows with one
 * pointer y the last is made. Row r of y may be row r of x. scratch: 3 * out_c more bytes. tile: of three
 * pixels. */
static TC_UNUSED void tc_conv2d_s8_rv32_rows(const tc_conv2d_s8_rv32_t *p, const tc_rv32_tile_t *tile,
                                             const int8_t *const *x, int8_t *const *y, void *scratch,
                                             int32_t rows)
{
    int32_t *const packed = (int32_t *)scratch, *const end = packed + 2 * p->taps;
    int8_t *const held = (int8_t *)end;
    const int32_t out_c = p->out.out_c;
    tc_band_t at = tc_band_begin(y, rows);

    while (at.row < rows) {
        const int8_t *from[3];
        int8_t *to[3];
        const int32_t n = tc_band_next(&at, x, y, rows, p->window.out_w, p->window.in_c, out_c, from, to);
        int32_t *rest = tc_scalar_pack_fours(from[0], from[1], from[2], p->window.in_c, packed, 2);
        while (rest < end) {
            *rest++ = 0;
        }
        if (to[n - 1] == to[0] + (n - 1) * out_c) {
            tc_conv2d_s8_rv32_pixels(p, tile, packed, n, to[0]);
        } else {
            tc_conv2d_s8_rv32_pixels(p, tile, packed, n, held);
            tc_band_spread(held, out_c, n, to);
        }
    }
}

/* ---- int4 weights, three pixels and eight channels at a time ---- */

/* A word holds the weights of a tap for eight channels, W = d0 + 16 d1 + ... + 16^7 d7: d7 the weight, the
 * others the weight + 8. The sums are taken of W >> 0, W >> 4, ... , W >> 28, which an instruction each
 * gives, and neighbours subtracted in the end; 8 times the sum of the taps goes as well. All exact modulo
 * 2^32.
 *
 * w [out_c / 8][taps]. No |sum of x * w| reaches 2^20. */
typedef struct {
    const int32_t *w;
    tc_rv32_out_t out;
    tc_scalar_window_t window;
    int32_t taps;
} tc_conv2d_s8_w4_rv32_t;

/* The sums of tc_rv32_nibbles. */
typedef void tc_rv32_nibbles_t(const int32_t *x, const int32_t *w, int32_t fours, int32_t *p);

/* p [8][P1, P2] of weights over each other -> of the weights. x1, x2: 8 times the sums of the taps. */
static TC_UNUSED void tc_rv32_apart(int32_t *p, uint32_t x1, uint32_t x2)
{
    for (int32_t *const end = p + 14; p < end; p += 2) {
        p[0] = (int32_t)((uint32_t)p[0] - ((uint32_t)p[2] << 4) - x1);
        p[1] = (int32_t)((uint32_t)p[1] - ((uint32_t)p[3] << 4) - x2);
    }
}

static TC_UNUSED void tc_conv2d_s8_w4_rv32(const tc_conv2d_s8_w4_rv32_t *p, tc_rv32_nibbles_t *dot,
                                           const int8_t *const *x, int8_t *y, void *scratch)
{
    int32_t *const packed = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c, out_w = p->window.out_w;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        const int32_t *w = p->w;
        uint32_t x1 = 0, x2 = 0;
        tc_rv32_gather(&p->window, x, ox, n, p->taps, packed);
        for (const int32_t *at = packed, *end = packed + 2 * p->taps; at < end; at += 8) {
            x1 += (uint32_t)at[0] + (uint32_t)at[2] + (uint32_t)at[4] + (uint32_t)at[6];
            x2 += (uint32_t)at[1] + (uint32_t)at[3] + (uint32_t)at[5] + (uint32_t)at[7];
        }
        for (int32_t o = 0; o < out_c; o += 8, w += p->taps) {
            int32_t sums[16];
            dot(packed, w, p->taps >> 2, sums);
            tc_rv32_apart(sums, 8 * x1, 8 * x2);
            tc_rv32_store(&p->out, sums, 0, o, 8, n, y);
        }
    }
}

#endif
