/* SPDX-License-Identifier: 0BSD */
/* Convolutions on RV32IM: three pixels in two words (tc_scalar.h says how), eight output channels at a time.
 *
 * A core with 31 registers keeps the sixteen sums of three pixels and eight channels there, so that a tap of
 * all of them costs two loads of the input, eight of weights, and sixteen times MUL and ADD. The way from a
 * sum to int8 is proved for the layer (tinyc/kernels/requantize.py):
 *
 *   x = sum * 2^scale + start,   y = clamp((high word of x * mult + add) >> shift)
 *
 * with `sign`, the high word is rounded and 1 is subtracted for x < 0. Other machines run the same in C.
 */
#ifndef TC_RV32_H
#define TC_RV32_H

#include "tc_math.h"

typedef struct {
    int32_t start, mult, add, shift;
} tc_rv32_channel_t;

typedef struct {
    const int32_t *channels; /* [out_c][start, mult, add, shift] */
    int32_t out_c, scale, sign, y_min, y_max;
    int32_t plain; /* whether scale is 11, and sign and every add are 0 (tc_rv32_block.h) */
} tc_rv32_out_t;

/* The horizontal geometry of a convolution; pad: at least in_c bytes of x_zero. */
typedef struct {
    const int8_t *pad;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
} tc_rv32_window_t;

#if TC_RV32_ASM

/* Registers: a0 taps, a1 weights, a2 end of the taps, t0 and t1 a tap, t2 a weight, a4 a product; the sums in
 * s0-s11 and t3-t6. */
#define TC_RV32_ENTER                                                              \
    "addi   sp, sp, -64\n"                                                         \
    "sw     s0, 0(sp)\n"                                                           \
    "sw     s1, 4(sp)\n"                                                           \
    "sw     s2, 8(sp)\n"                                                           \
    "sw     s3, 12(sp)\n"                                                          \
    "sw     s4, 16(sp)\n"                                                          \
    "sw     s5, 20(sp)\n"                                                          \
    "sw     s6, 24(sp)\n"                                                          \
    "sw     s7, 28(sp)\n"                                                          \
    "sw     s8, 32(sp)\n"                                                          \
    "sw     s9, 36(sp)\n"                                                          \
    "sw     s10, 40(sp)\n"                                                         \
    "sw     s11, 44(sp)\n"                                                         \
    "slli   a2, a2, 5\n" /* four taps of two words */                              \
    "add    a2, a2, a0\n"                                                          \
    "li     s0, 0\n"                                                               \
    "li     s1, 0\n"                                                               \
    "li     s2, 0\n"                                                               \
    "li     s3, 0\n"                                                               \
    "li     s4, 0\n"                                                               \
    "li     s5, 0\n"                                                               \
    "li     s6, 0\n"                                                               \
    "li     s7, 0\n"                                                               \
    "li     s8, 0\n"                                                               \
    "li     s9, 0\n"                                                               \
    "li     s10, 0\n"                                                              \
    "li     s11, 0\n"                                                              \
    "li     t3, 0\n"                                                               \
    "li     t4, 0\n"                                                               \
    "li     t5, 0\n"                                                               \
    "li     t6, 0\n"                                                               \
    "1:\n"

#define TC_RV32_LEAVE(step)                                                        \
    "addi   a0, a0, 32\n"                                                          \
    "addi   a1, a1, " step "\n"                                                    \
    "bne    a0, a2, 1b\n"                                                          \
    "sw     s0, 0(a3)\n"                                                           \
    "sw     s1, 4(a3)\n"                                                           \
    "sw     s2, 8(a3)\n"                                                           \
    "sw     s3, 12(a3)\n"                                                          \
    "sw     s4, 16(a3)\n"                                                          \
    "sw     s5, 20(a3)\n"                                                          \
    "sw     s6, 24(a3)\n"                                                          \
    "sw     s7, 28(a3)\n"                                                          \
    "sw     s8, 32(a3)\n"                                                          \
    "sw     s9, 36(a3)\n"                                                          \
    "sw     s10, 40(a3)\n"                                                         \
    "sw     s11, 44(a3)\n"                                                         \
    "sw     t3, 48(a3)\n"                                                          \
    "sw     t4, 52(a3)\n"                                                          \
    "sw     t5, 56(a3)\n"                                                          \
    "sw     t6, 60(a3)\n"                                                          \
    "lw     s0, 0(sp)\n"                                                           \
    "lw     s1, 4(sp)\n"                                                           \
    "lw     s2, 8(sp)\n"                                                           \
    "lw     s3, 12(sp)\n"                                                          \
    "lw     s4, 16(sp)\n"                                                          \
    "lw     s5, 20(sp)\n"                                                          \
    "lw     s6, 24(sp)\n"                                                          \
    "lw     s7, 28(sp)\n"                                                          \
    "lw     s8, 32(sp)\n"                                                          \
    "lw     s9, 36(sp)\n"                                                          \
    "lw     s10, 40(sp)\n"                                                         \
    "lw     s11, 44(sp)\n"                                                         \
    "addi   sp, sp, 64\n"                                                          \
    "ret\n"

#define TC_RV32_INPUT(at1, at2)                                                    \
    "lw     t0, " at1 "(a0)\n"                                                     \
    "lw     t1, " at2 "(a0)\n"

#define TC_RV32_MULTIPLY(sum1, sum2)                                               \
    "mul    a4, t0, t2\n"                                                          \
    "add    " sum1 ", " sum1 ", a4\n"                                              \
    "mul    a4, t1, t2\n"                                                          \
    "add    " sum2 ", " sum2 ", a4\n"

#endif

/* 4 * fours taps x [taps][X1, X2] times w [taps][8] -> p [8][P1, P2]. fours > 0. */
#if TC_RV32_ASM

#define TC_RV32_CHANNEL(at, sum1, sum2) "lb     t2, " at "(a1)\n" TC_RV32_MULTIPLY(sum1, sum2)
#define TC_RV32_TAP(at1, at2, w0, w1, w2, w3, w4, w5, w6, w7)                      \
    TC_RV32_INPUT(at1, at2)                                                        \
    TC_RV32_CHANNEL(w0, "s0", "s1") TC_RV32_CHANNEL(w1, "s2", "s3")                \
    TC_RV32_CHANNEL(w2, "s4", "s5") TC_RV32_CHANNEL(w3, "s6", "s7")                \
    TC_RV32_CHANNEL(w4, "s8", "s9") TC_RV32_CHANNEL(w5, "s10", "s11")              \
    TC_RV32_CHANNEL(w6, "t3", "t4") TC_RV32_CHANNEL(w7, "t5", "t6")

static TC_NAKED void tc_rv32_dot8(const int32_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                       int32_t fours TC_UNUSED, int32_t *p TC_UNUSED)
{
    __asm__ volatile(
        TC_RV32_ENTER
        TC_RV32_TAP("0", "4", "0", "1", "2", "3", "4", "5", "6", "7")
        TC_RV32_TAP("8", "12", "8", "9", "10", "11", "12", "13", "14", "15")
        TC_RV32_TAP("16", "20", "16", "17", "18", "19", "20", "21", "22", "23")
        TC_RV32_TAP("24", "28", "24", "25", "26", "27", "28", "29", "30", "31")
        TC_RV32_LEAVE("32"));
}

#undef TC_RV32_TAP
#undef TC_RV32_CHANNEL

#else

static TC_UNUSED void tc_rv32_dot8(const int32_t *x, const int8_t *w, int32_t fours, int32_t *p)
{
    uint32_t sums[16];
    tc_clear((int32_t *)sums, 16);
    for (const int32_t *end = x + 8 * fours; x < end; x += 2, w += 8) {
        for (int32_t i = 0; i < 8; i++) {
            sums[2 * i] += (uint32_t)x[0] * (uint32_t)w[i];
            sums[2 * i + 1] += (uint32_t)x[1] * (uint32_t)w[i];
        }
    }
    for (int32_t i = 0; i < 16; i++) {
        p[i] = (int32_t)sums[i];
    }
}

#endif

/* The dot products A, B, C of [P1, P2]. */
TC_INLINE void tc_rv32_split(const int32_t *p, int32_t *a, int32_t *b, int32_t *c)
{
    const uint32_t p1 = (uint32_t)p[0], p2 = (uint32_t)p[1];
    *b = (int32_t)(p2 << 11) >> 11;
    const uint32_t part = (p2 - (uint32_t)*b) >> 21; /* of C: modulo 2^11 */
    const uint32_t rest = p1 - (part << 10);
    *a = (int32_t)(rest << 11) >> 11;
    *c = (int32_t)part + ((int32_t)(rest - (uint32_t)*a) >> 10);
}

TC_INLINE int32_t tc_rv32_output(int32_t sum, int32_t scale, const tc_rv32_channel_t *channel, int32_t sign,
                                 int32_t least, int32_t greatest)
{
    const int32_t x = (int32_t)(((uint32_t)sum << scale) + (uint32_t)channel->start);
    const int64_t product = (int64_t)x * channel->mult;
    int32_t t = (int32_t)((product + (sign ? (int64_t)1 << 31 : 0)) >> 32) + channel->add;
    if (sign) t += x >> 31;
    return tc_clamp(t >> channel->shift, least, greatest);
}

/* sums [8][P1, P2] of channels o .. o + 7, and acc [8][3] of earlier segments or NULL -> y [n][out_c], n <=
 * 3; sign: a literal. */
TC_INLINE void tc_rv32_store_by(const tc_rv32_out_t *p, const int32_t *sums, const int32_t *acc, int32_t o,
                                int32_t n, int8_t *y, int32_t sign)
{
    const int32_t step = p->out_c, scale = p->scale, least = p->y_min, greatest = p->y_max;
    const tc_rv32_channel_t *channel = (const tc_rv32_channel_t *)(const void *)(p->channels + 4 * o);
    const int32_t *const end = sums + 2 * (step - o < 8 ? step - o : 8);
    y += o;
    if (n == 3 && !acc) {
        int8_t *second = y + step, *third = second + step;
        for (; sums < end; sums += 2, channel++) {
            const tc_rv32_channel_t now = *channel;
            int32_t a, b, c;
            tc_rv32_split(sums, &a, &b, &c);
            *y++ = (int8_t)tc_rv32_output(a, scale, &now, sign, least, greatest);
            *second++ = (int8_t)tc_rv32_output(b, scale, &now, sign, least, greatest);
            *third++ = (int8_t)tc_rv32_output(c, scale, &now, sign, least, greatest);
        }
        return;
    }
    for (; sums < end; sums += 2, channel++, y++) {
        int32_t a, b, c;
        tc_rv32_split(sums, &a, &b, &c);
        if (acc) {
            a += acc[0];
            b += acc[1];
            c += acc[2];
            acc += 3;
        }
        y[0] = (int8_t)tc_rv32_output(a, scale, channel, sign, least, greatest);
        if (n > 1) y[step] = (int8_t)tc_rv32_output(b, scale, channel, sign, least, greatest);
        if (n > 2) y[2 * step] = (int8_t)tc_rv32_output(c, scale, channel, sign, least, greatest);
    }
}

static TC_UNUSED void tc_rv32_store(const tc_rv32_out_t *p, const int32_t *sums, const int32_t *acc,
                                    int32_t o, int32_t n, int8_t *y)
{
    if (p->sign) {
        tc_rv32_store_by(p, sums, acc, o, n, y, 1);
    } else {
        tc_rv32_store_by(p, sums, acc, o, n, y, 0);
    }
}

/* Adds the dot products of eight channels to acc [8][3]. */
static TC_UNUSED void tc_rv32_add8(const int32_t *p, int32_t *acc)
{
    for (const int32_t *end = p + 16; p < end; p += 2, acc += 3) {
        int32_t a, b, c;
        tc_rv32_split(p, &a, &b, &c);
        acc[0] += a;
        acc[1] += b;
        acc[2] += c;
    }
}

/* Byte i of three pixels -> words 2 * i, 2 * i + 1. */
TC_INLINE void tc_rv32_pack_one(const int8_t *a, const int8_t *b, const int8_t *c, int32_t i, int32_t *to)
{
    const uint32_t third = (uint32_t)c[i];
    to[2 * i] = (int32_t)((uint32_t)a[i] + (third << 10));
    to[2 * i + 1] = (int32_t)((uint32_t)b[i] + (third << 21));
}

/* Bytes a, b, c [n] of three pixels -> [n][X1, X2]; the end of it. */
TC_INLINE int32_t *tc_rv32_pack(const int8_t *a, const int8_t *b, const int8_t *c, int32_t n, int32_t *to)
{
    int32_t left = n;
    for (; left >= 4; left -= 4, a += 4, b += 4, c += 4, to += 8) {
        tc_rv32_pack_one(a, b, c, 0, to);
        tc_rv32_pack_one(a, b, c, 1, to);
        tc_rv32_pack_one(a, b, c, 2, to);
        tc_rv32_pack_one(a, b, c, 3, to);
    }
    for (; left > 0; left--, a++, b++, c++, to += 2) {
        tc_rv32_pack_one(a, b, c, 0, to);
    }
    return to;
}

/* The taps of n <= 3 pixels from ox on, then zeros up to `taps`. */
static inline void tc_rv32_gather(const tc_rv32_window_t *p, const int8_t *const *x, int32_t ox, int32_t n,
                                  int32_t taps, int32_t *to)
{
    int32_t *const end = to + 2 * taps;
    const int32_t first = ox * p->stride_w - p->pad_left, step = p->stride_w * p->in_c;
    const int32_t inside = n == 3 && first >= 0 && first + 2 * p->stride_w + p->k_w <= p->in_w;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        if (inside && p->dilation_w == 1) {
            const int8_t *const from = x[ky] + first * p->in_c;
            to = tc_rv32_pack(from, from + step, from + 2 * step, p->k_w * p->in_c, to);
            continue;
        }
        for (int32_t kx = 0; kx < p->k_w; kx++) {
            const int8_t *from[3];
            int32_t ix = first + kx * p->dilation_w;
            for (int32_t i = 0; i < 3; i++, ix += p->stride_w) {
                from[i] = i < n && ix >= 0 && ix < p->in_w ? x[ky] + ix * p->in_c : p->pad;
            }
            to = tc_rv32_pack(from[0], from[1], from[2], p->in_c, to);
        }
    }
    while (to < end) {
        *to++ = 0;
    }
}

#endif
