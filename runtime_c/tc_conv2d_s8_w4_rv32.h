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
    tc_rv32_window_t window;
    int32_t taps;
} tc_conv2d_s8_w4_rv32_t;

/* 4 * fours taps x [taps][X1, X2] times w [taps] >> 0, 4, ... 28 -> p [8][P1, P2]. fours > 0. */
#if TC_RV32_ASM

#define TC_RV32_NEXT "srai   t2, t2, 4\n"
#define TC_RV32_TAP(at1, at2, at)                                                  \
    TC_RV32_INPUT(at1, at2)                                                        \
    "lw     t2, " at "(a1)\n"                                                      \
    TC_RV32_MULTIPLY("s0", "s1") TC_RV32_NEXT TC_RV32_MULTIPLY("s2", "s3") TC_RV32_NEXT            \
    TC_RV32_MULTIPLY("s4", "s5") TC_RV32_NEXT TC_RV32_MULTIPLY("s6", "s7") TC_RV32_NEXT            \
    TC_RV32_MULTIPLY("s8", "s9") TC_RV32_NEXT TC_RV32_MULTIPLY("s10", "s11") TC_RV32_NEXT          \
    TC_RV32_MULTIPLY("t3", "t4") TC_RV32_NEXT TC_RV32_MULTIPLY("t5", "t6")

static TC_NAKED void tc_rv32_nibbles8(const int32_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                           int32_t fours TC_UNUSED, int32_t *p TC_UNUSED)
{
    __asm__ volatile(
        TC_RV32_ENTER
        TC_RV32_TAP("0", "4", "0")
        TC_RV32_TAP("8", "12", "4")
        TC_RV32_TAP("16", "20", "8")
        TC_RV32_TAP("24", "28", "12")
        TC_RV32_LEAVE("16"));
}

#undef TC_RV32_TAP
#undef TC_RV32_NEXT

#else

static TC_UNUSED void tc_rv32_nibbles8(const int32_t *x, const int32_t *w, int32_t fours, int32_t *p)
{
    uint32_t sums[16];
    tc_clear((int32_t *)sums, 16);
    for (const int32_t *end = x + 8 * fours; x < end; x += 2, w++) {
        for (int32_t i = 0; i < 8; i++) {
            sums[2 * i] += (uint32_t)x[0] * (uint32_t)(*w >> 4 * i);
            sums[2 * i + 1] += (uint32_t)x[1] * (uint32_t)(*w >> 4 * i);
        }
    }
    for (int32_t i = 0; i < 16; i++) {
        p[i] = (int32_t)sums[i];
    }
}

#endif

/* p [8][P1, P2] of weights over each other -> of the weights. x1, x2: 8 times the sums of the taps. */
static TC_UNUSED void tc_rv32_apart(int32_t *p, uint32_t x1, uint32_t x2)
{
    for (int32_t *const end = p + 14; p < end; p += 2) {
        p[0] = (int32_t)((uint32_t)p[0] - ((uint32_t)p[2] << 4) - x1);
        p[1] = (int32_t)((uint32_t)p[1] - ((uint32_t)p[3] << 4) - x2);
    }
}

static TC_UNUSED void tc_conv2d_s8_w4_rv32(const tc_conv2d_s8_w4_rv32_t *p, const int8_t *const *x, int8_t *y,
                                                void *scratch)
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
            tc_rv32_nibbles8(packed, w, p->taps >> 2, sums);
            tc_rv32_apart(sums, 8 * x1, 8 * x2);
            tc_rv32_store(&p->out, sums, 0, o, n, y);
        }
    }
}

#endif
