/* SPDX-License-Identifier: 0BSD */
/* tc_conv2d_s8_scalar with weights that have a zero point: the weight of a tap is w + offset. The products of
 * a pixel with the offset are those of the sum of its taps, which all output channels share.
 *
 * scratch: 8 more bytes for each segment. p: as there, but for `segment`, whose sums have the offset in them;
 * weights beyond the last tap meet taps of zero.
 */
#ifndef TC_CONV2D_S8_OFFSET_SCALAR_H
#define TC_CONV2D_S8_OFFSET_SCALAR_H

#include "tc_conv2d_s8_scalar.h"

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

/* n <= 3 packed pixels, behind them the offset's sums -> y [n][out_c]. */
static inline void tc_conv2d_s8_offset_pixels(const tc_conv2d_s8_scalar_t *p, const int32_t *packed,
                                              int32_t n, int8_t *y)
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
                tc_scalar_offset4(sums, more);
                tc_scalar_add4(sums, acc);
            }
        }
        tc_scalar_dot4(packed + 2 * done, w + 8 * done, (p->taps - done) >> 1, sums);
        tc_scalar_offset4(sums, more);
        p->store(&p->out, sums, done ? acc : 0, o, n, y);
    }
}

static TC_UNUSED void tc_conv2d_s8_offset_scalar(const tc_conv2d_s8_scalar_t *p, const int8_t *const *x,
                                                 int8_t *y, void *scratch, int32_t offset)
{
    int32_t *const packed = (int32_t *)scratch;

    for (int32_t ox = 0; ox < p->out_w; ox += 3, y += 3 * p->out.out_c) {
        const int32_t n = p->out_w - ox < 3 ? p->out_w - ox : 3;
        tc_conv2d_s8_scalar_gather(p, x, ox, n, packed);
        tc_scalar_offset_sums(packed, p->taps, p->segment, offset, packed + 2 * p->taps);
        tc_conv2d_s8_offset_pixels(p, packed, n, y);
    }
}

#endif
