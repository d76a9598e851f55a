/* SPDX-License-Identifier: 0BSD */
/* A row of a depthwise convolution of any size on RV32IM (tc_rv32.h): in plain C what the functions in
 * assembly compute that the compiler writes for single layers (tinyc/kernels/scalar/rv32_taps.py).
 *
 *   sum = sum over ky, kx of x[ky][ox * stride - pad_left + kx * dilation][c] * w[c][ky][kx]
 *   y[ox][c] = tc_rv32_finish of it
 *
 * x: k_h row pointers; columns outside are pad [out_c], x_zero. y: may not overlap x. channels
 * [out_c][start, mult, add, shift]. w [block][k_h][k_w][lanes]; int4 two in a byte, the first in the low
 * half, whole bytes for each tap. The last block of channels ends with them, over the one before.
 */
#ifndef TC_RV32_TAPS_H
#define TC_RV32_TAPS_H

#include "tc_rv32.h"

typedef struct {
    int32_t k_h, k_w, stride, dilation, pad_left, in_w, out_w, out_c, lanes, int4, scale, sign, y_min, y_max;
} tc_rv32_taps_t;

/* Weight i of a tap of a block. */
TC_INLINE int32_t tc_rv32_taps_weight(const int8_t *w, int32_t i, int32_t int4)
{
    if (!int4) return w[i];
    return i & 1 ? w[i / 2] >> 4 : (int32_t)((uint32_t)w[i / 2] << 28) >> 28;
}

TC_INLINE int32_t tc_rv32_taps_bytes(const tc_rv32_taps_t *p)
{
    return p->int4 ? (p->lanes + 1) / 2 : p->lanes;
}

/* Channel `lane` of the block from c on, of the pixel whose first column is ix. */
static TC_UNUSED int32_t tc_rv32_taps_sum(const tc_rv32_taps_t *p, const int8_t *w, const int8_t *pad,
                                          const int8_t *const *x, int32_t ix, int32_t c, int32_t lane)
{
    const int32_t tap = tc_rv32_taps_bytes(p);
    int32_t sum = 0;
    for (int32_t ky = 0; ky < p->k_h; ky++) {
        for (int32_t kx = 0; kx < p->k_w; kx++, w += tap) {
            const int32_t column = ix + kx * p->dilation;
            const int8_t *const from = column >= 0 && column < p->in_w ? x[ky] + column * p->out_c : pad;
            sum += from[c + lane] * tc_rv32_taps_weight(w, lane, p->int4);
        }
    }
    return sum;
}

static TC_UNUSED void tc_rv32_taps(const tc_rv32_taps_t *p, const int8_t *w, const int32_t *channels,
                                   const int8_t *pad, const int8_t *const *x, int8_t *y)
{
    const int32_t block = p->k_h * p->k_w * tc_rv32_taps_bytes(p), last = p->out_c - p->lanes;
    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->out_c) {
        const int32_t ix = ox * p->stride - p->pad_left;
        const int8_t *weights = w;
        for (int32_t from = 0; from < p->out_c; from += p->lanes, weights += block) {
            const int32_t c = from < last ? from : last;
            for (int32_t lane = 0; lane < p->lanes; lane++) {
                const int32_t sum = tc_rv32_taps_sum(p, weights, pad, x, ix, c, lane);
                const int32_t *const channel = channels + 4 * (c + lane);
                y[c + lane] = tc_rv32_finish(sum, p->scale, channel, p->sign, p->y_min, p->y_max);
            }
        }
    }
}

#endif
