/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution on a core without DSP instructions (tc_scalar.h), three pixels at a time.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] *
 *       w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * pad: at least in_c bytes of x_zero. w [out_c / 8][taps][8], taps = k_h * k_w * in_c rounded up to an even
 * number, zeros beyond the last channel and tap. scratch: 8 bytes for each tap, on a word. A group's pixels
 * are read before it is written.
 * segment: taps, even, over which no |sum of x * w| reaches 2^20.
 */
#ifndef TC_CONV2D_S8_SCALAR_H
#define TC_CONV2D_S8_SCALAR_H

#include "tc_band.h"
#include "tc_scalar.h"
#include "tc_scalar_dot.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    tc_scalar_window_t window;
    int32_t taps, segment;
    void (*store)(const tc_scalar_out_t *p, const int32_t *sums, const int32_t *acc, int32_t o, int32_t n,
                  int8_t *y);
} tc_conv2d_s8_scalar_t;

/* packed [taps][X1, X2] -> for each segment the offset times its sums. */
static inline void tc_scalar_offset_sums(const int32_t *packed, int32_t taps, int32_t segment, int32_t offset,
                                         int32_t *to)
{
    const int32_t *const end = packed + 2 * taps;
    while (packed < end) {
        const int32_t *const last = end - packed < 2 * segment ? end : packed + 2 * segment;
        uint32_t first = 0, second = 0;
        for (; packed < last; packed += 2) {
            first += (uint32_t)packed[0];
            second += (uint32_t)packed[1];
        }
        *to++ = (int32_t)(first * (uint32_t)offset);
        *to++ = (int32_t)(second * (uint32_t)offset);
    }
}

/* sums [4][P1, P2] += offset sums [P1, P2] */
static inline void tc_scalar_offset4(int32_t *sums, const int32_t *more)
{
    const uint32_t first = (uint32_t)more[0], second = (uint32_t)more[1];
    for (const int32_t *const end = sums + 8; sums < end; sums += 2) {
        sums[0] = (int32_t)((uint32_t)sums[0] + first);
        sums[1] = (int32_t)((uint32_t)sums[1] + second);
    }
}

/* n <= 3 packed pixels -> y [n][out_c]; with an offset, a literal, its sums lie behind them. */
TC_INLINE void tc_conv2d_s8_scalar_by(const tc_conv2d_s8_scalar_t *p, const int32_t *packed, int32_t n,
                                      int8_t *y, int32_t has_offset)
{
    for (int32_t o = 0; o < p->out.out_c; o += 4) {
        const int8_t *const w = p->w + (o & ~7) * p->taps + (o & 4);
        const int32_t *more = packed + 2 * p->taps;
        int32_t sums[8], acc[12];
        int32_t done = 0;
        if (p->taps > p->segment) {
            tc_clear(acc, 12);
            for (; done + p->segment < p->taps; done += p->segment, more += 2) {
                tc_scalar_dot4(packed + 2 * done, w + 8 * done, p->segment >> 1, sums);
                if (has_offset) tc_scalar_offset4(sums, more);
                tc_scalar_add4(sums, acc);
            }
        }
        tc_scalar_dot4(packed + 2 * done, w + 8 * done, (p->taps - done) >> 1, sums);
        if (has_offset) tc_scalar_offset4(sums, more);
        p->store(&p->out, sums, done ? acc : 0, o, n, y);
    }
}

static inline void tc_conv2d_s8_scalar_pixels(const tc_conv2d_s8_scalar_t *p, const int32_t *packed,
                                              int32_t n, int8_t *y)
{
    tc_conv2d_s8_scalar_by(p, packed, n, y, 0);
}

static TC_UNUSED void tc_conv2d_s8_scalar(const tc_conv2d_s8_scalar_t *p, const int8_t *const *x, int8_t *y,
                                          void *scratch)
{
    int32_t *const packed = (int32_t *)scratch;
    const int32_t out_w = p->window.out_w;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * p->out.out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        tc_scalar_gather(&p->window, x, ox, n, p->taps, packed);
        tc_conv2d_s8_scalar_pixels(p, packed, n, y);
    }
}

/* Several rows of 1x1 taps, pixels of neighbouring rows together: x, y: `rows` row pointers; of rows with one
 * pointer y the last is made. Row r of y may be row r of x. scratch: 3 * out_c more bytes. */
static TC_UNUSED void tc_conv2d_s8_scalar_rows(const tc_conv2d_s8_scalar_t *p, const int8_t *const *x,
                                               int8_t *const *y, void *scratch, int32_t rows)
{
    int32_t *const packed = (int32_t *)scratch, *const end = packed + 2 * p->taps;
    int8_t *const held = (int8_t *)end;
    const int32_t out_c = p->out.out_c;
    tc_band_t at = tc_band_begin(y, rows);

    while (at.row < rows) {
        const int8_t *from[3];
        int8_t *to[3];
        const int32_t n = tc_band_next(&at, x, y, rows, p->window.out_w, p->window.in_c, out_c, from, to);
        int32_t *const rest = tc_scalar_pack(from[0], from[1], from[2], p->window.in_c, packed);
        if (rest < end) {
            rest[0] = rest[1] = 0;
        }
        if (to[n - 1] == to[0] + (n - 1) * out_c) {
            tc_conv2d_s8_scalar_pixels(p, packed, n, to[0]);
        } else {
            tc_conv2d_s8_scalar_pixels(p, packed, n, held);
            tc_band_spread(held, out_c, n, to);
        }
    }
}

/* With weights that have a zero point: the weight of a tap is w + offset. The products of a pixel with the
 * offset are those of the sum of its taps, which all output channels share. scratch: 8 more bytes for each
 * segment, whose sums have the offset in them; weights beyond the last tap meet taps of zero. */
static TC_UNUSED void tc_conv2d_s8_offset_scalar(const tc_conv2d_s8_scalar_t *p, const int8_t *const *x,
                                                 int8_t *y, void *scratch, int32_t offset)
{
    int32_t *const packed = (int32_t *)scratch;
    const int32_t out_w = p->window.out_w;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * p->out.out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        tc_scalar_gather(&p->window, x, ox, n, p->taps, packed);
        tc_scalar_offset_sums(packed, p->taps, p->segment, offset, packed + 2 * p->taps);
        tc_conv2d_s8_scalar_by(p, packed, n, y, 1);
    }
}

#endif
