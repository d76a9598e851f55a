/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution with int4 weights on RV32IM (tc_rv32.h), three pixels and eight channels at a
 * time.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] *
 *       w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * A word holds the weights of a tap for eight channels, W = d0 + 16 d1 + ... + 16^7 d7: d7 the weight, the
 * others the weight + 8. The sums are taken of W >> 0, W >> 4, ... , W >> 28, which an instruction each
 * gives, and neighbours subtracted in the end; 8 times the sum of the taps goes as well. All exact modulo
 * 2^32.
 *
 * w [out_c / 8][taps], the rest as in tc_conv2d_s8_rv32.h. No |sum of x * w| reaches 2^20.
 */
#ifndef TC_CONV2D_S8_W4_RV32_H
#define TC_CONV2D_S8_W4_RV32_H

#include "tc_rv32.h"

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
