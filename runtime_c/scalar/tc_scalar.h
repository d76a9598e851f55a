/* SPDX-License-Identifier: 0BSD */
/* Convolutions for cores without DSP instructions: three pixels in two words, and exact sums without 64-bit
 * products.
 *
 * One 32-bit multiply-accumulate serves one and a half taps. For the taps a, b, c of three pixels the words
 *
 *   X1 = a + 2^10 c,   X2 = b + 2^21 c    (modulo 2^32)
 *
 * are multiplied with the int8 weight w and summed up: P1 = A + 2^10 C, P2 = B + 2^21 C with the dot products
 * A, B, C.
 * When |A|, |B|, |C| < 2^20, B is the lower 21 bits of P2, and the rest of P2 is C modulo 2^11. That part of
 * C taken from P1 leaves A + 2^21 (C >> 11), which splits in the same way. Longer dot products go by segments
 * that keep the bound.
 *
 * ARMv6-M and ARMv7-M run the loop in assembly: neither keeps the accumulators in registers otherwise. No
 * access is unaligned.
 */
#ifndef TC_SCALAR_H
#define TC_SCALAR_H

#include "tc_math.h"

#if TC_GNU && defined(__thumb2__) && !defined(__ARM_BIG_ENDIAN)
#define TC_SCALAR_THUMB2 1
#define TC_SCALAR_THUMB1 0
#elif TC_GNU && defined(__thumb__) && !defined(__ARM_BIG_ENDIAN)
#define TC_SCALAR_THUMB2 0
#define TC_SCALAR_THUMB1 1
#else
#define TC_SCALAR_THUMB2 0
#define TC_SCALAR_THUMB1 0
#endif

/* RISC-V and ARMv7-M multiply to 64 bits. The others build the upper half from four products; so do hosts, as
 * a test of it. */
#if TC_SCALAR_THUMB2 || defined(__riscv_mul)
#define TC_SCALAR_LONG 1
#else
#define TC_SCALAR_LONG 0
#endif

/* bias, mult, shift [out_c]: y = clamp((t + c) >> shift), t = acc * mult / 2^31, c = y_zero * 2^shift +
 * 2^(shift - 1).
 * finish: 1 t is rounded down, 2 to the nearest, 3 to the nearest and less 1 if negative; 0: tc_requantize by
 * `rounds`, shift as there. clamp: whether y_min, y_max are other than those of int8. */
typedef struct {
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t out_c, finish, rounds, y_zero, y_min, y_max, clamp;
} tc_scalar_out_t;

typedef struct {
    int32_t mult, c, shift;
} tc_scalar_channel_t;

/* half: 2 * y_zero + 1. finish: a literal. */
TC_INLINE tc_scalar_channel_t tc_scalar_channel_of(int32_t mult, int32_t shift, int32_t half, int32_t finish)
{
    const tc_scalar_channel_t channel = {mult, finish ? (int32_t)((uint32_t)half << shift) >> 1 : 0, shift};
    return channel;
}

TC_INLINE tc_scalar_channel_t tc_scalar_channel(const tc_scalar_out_t *p, int32_t o, int32_t finish)
{
    return tc_scalar_channel_of(p->mult[o], p->shift[o], 2 * p->y_zero + 1, finish);
}

/* acc * mult / 2^31 rounded down, plus 1/2 first if `round`; and `more`. |acc| < 2^28. */
TC_INLINE int32_t tc_scalar_scale(int32_t acc, int32_t mult, int32_t round, int32_t more)
{
#if TC_SCALAR_LONG
    const int64_t start = (int64_t)((uint64_t)(uint32_t)more << 32 | (round ? 1u << 31 : 0u));
    return (int32_t)(((int64_t)(acc * 2) * mult + start) >> 32);
#else
    const int32_t low = (int16_t)acc;
    const int32_t high = (acc - low) >> 16;
    const int32_t mult_low = mult & 0xffff;
    const int32_t mult_high = mult >> 16;
    const int32_t middle = ((low * mult_low) >> 16) + low * mult_high + high * mult_low;
    /* no constant that ARMv6-M has to build */
    const int32_t upper = round ? ((middle >> 14) + 1) >> 1 : middle >> 15;
    return 2 * high * mult_high + upper + more;
#endif
}

TC_INLINE int32_t tc_scalar_clamp(int32_t v, int32_t clamp, int32_t least, int32_t greatest)
{
    if (clamp) return tc_clamp(v, least, greatest);
#if TC_SCALAR_THUMB2
    int32_t r;
    __asm__("ssat %0, #8, %1" : "=r"(r) : "r"(v));
    return r;
#else
    return tc_clamp(v, -128, 127);
#endif
}

/* An accumulator with its bias -> int8; finish, clamp: literals. */
TC_INLINE int32_t tc_scalar_finish(int32_t v, tc_scalar_channel_t channel, int32_t finish, int32_t clamp,
                                   int32_t least, int32_t greatest)
{
    if (finish == 3) {
        v = tc_scalar_scale(v, channel.mult, 1, 0);
        v += channel.c + (v >> 31);
    } else {
        v = tc_scalar_scale(v, channel.mult, finish == 2, channel.c);
    }
    return tc_scalar_clamp(v >> channel.shift, clamp, least, greatest);
}

/* n accumulators of channel o without its bias -> int8 at y, y + step, ...; finish, clamp: literals. */
TC_INLINE void tc_scalar_row_by(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int32_t n, int8_t *y,
                                       int32_t step, int32_t finish, int32_t clamp)
{
    const tc_scalar_channel_t channel = tc_scalar_channel(p, o, finish);
    const int32_t bias = p->bias[o], least = p->y_min, greatest = p->y_max;
    const int32_t *const end = acc + n;
    for (; acc < end; y += step) {
        *y = (int8_t)tc_scalar_finish(*acc++ + bias, channel, finish, clamp, least, greatest);
    }
}

/* The same with finish 0. */
static TC_UNUSED void tc_scalar_row_0(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int32_t n,
                                      int8_t *y, int32_t step)
{
    for (int32_t i = 0; i < n; i++, y += step) {
        const int32_t v = tc_requantize(acc[i] + p->bias[o], p->mult[o], p->shift[o], p->rounds);
        *y = (int8_t)tc_clamp(v + p->y_zero, p->y_min, p->y_max);
    }
}

/* One accumulator of each of the channels o .. o + 3 -> y; finish, clamp: literals. */
TC_INLINE void tc_scalar_dense_by(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y,
                                  int32_t finish, int32_t clamp)
{
    const int32_t least = p->y_min, greatest = p->y_max, half = 2 * p->y_zero + 1;
    const int32_t *const end = acc + (p->out_c - o < 4 ? p->out_c - o : 4);
    const int32_t *bias = p->bias + o, *mult = p->mult + o;
    const int8_t *shift = p->shift + o;
    while (acc < end) {
        const tc_scalar_channel_t channel = tc_scalar_channel_of(*mult++, *shift++, half, finish);
        *y++ = (int8_t)tc_scalar_finish(*acc++ + *bias++, channel, finish, clamp, least, greatest);
    }
}

/* The same with finish 0. */
static TC_UNUSED void tc_scalar_dense_0(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y)
{
    for (int32_t i = 0; i < 4 && o + i < p->out_c; i++) {
        tc_scalar_row_0(p, acc + i, o + i, 1, y + i, 1);
    }
}

/* The dot products A, B, C of [P1, P2]. */
TC_INLINE void tc_scalar_split(const int32_t *p, int32_t *a, int32_t *b, int32_t *c)
{
    const uint32_t p1 = (uint32_t)p[0], p2 = (uint32_t)p[1];
    *b = (int32_t)(p2 << 11) >> 11;
    const uint32_t part = (p2 - (uint32_t)*b) >> 21; /* of C: modulo 2^11 */
    const uint32_t rest = p1 - (part << 10);
    *a = (int32_t)(rest << 11) >> 11;
    *c = (int32_t)part + ((int32_t)(rest - (uint32_t)*a) >> 10);
}

/* Adds the dot products of four channels to acc [4][3]. */
static TC_UNUSED void tc_scalar_add4(const int32_t *p, int32_t *acc)
{
    for (const int32_t *end = p + 8; p < end; p += 2, acc += 3) {
        int32_t a, b, c;
        tc_scalar_split(p, &a, &b, &c);
        acc[0] += a;
        acc[1] += b;
        acc[2] += c;
    }
}

/* sums [4][P1, P2] of channels o .. o + 3, and acc [4][3] of earlier segments or NULL -> y [n][out_c], n <=
 * 3;
 * finish, clamp: literals. */
TC_INLINE void tc_scalar_pixels_by(const tc_scalar_out_t *p, const int32_t *sums, const int32_t *acc,
                                   int32_t o, int32_t n, int8_t *y, int32_t finish, int32_t clamp)
{
    const int32_t step = p->out_c, least = p->y_min, greatest = p->y_max, half = 2 * p->y_zero + 1;
    const int32_t *const end = sums + 2 * (step - o < 4 ? step - o : 4);
    const int32_t *bias = p->bias + o, *mult = p->mult + o;
    const int8_t *shift = p->shift + o;
    for (y += o; sums < end; sums += 2, y++) {
        const tc_scalar_channel_t channel = tc_scalar_channel_of(*mult++, *shift++, half, finish);
        const int32_t first = *bias++;
        int32_t a, b, c;
        tc_scalar_split(sums, &a, &b, &c);
        if (acc) {
            a += acc[0];
            b += acc[1];
            c += acc[2];
            acc += 3;
        }
        y[0] = (int8_t)tc_scalar_finish(a + first, channel, finish, clamp, least, greatest);
        if (n > 1) y[step] = (int8_t)tc_scalar_finish(b + first, channel, finish, clamp, least, greatest);
        if (n > 2) y[2 * step] = (int8_t)tc_scalar_finish(c + first, channel, finish, clamp, least, greatest);
    }
}

/* The same with finish 0. */
static TC_UNUSED void tc_scalar_pixels_0(const tc_scalar_out_t *p, const int32_t *sums, const int32_t *acc,
                                         int32_t o, int32_t n, int8_t *y)
{
    int32_t all[12];
    for (int32_t i = 0; i < 12; i++) {
        all[i] = acc ? acc[i] : 0;
    }
    tc_scalar_add4(sums, all);
    for (int32_t i = 0; i < 4 && o + i < p->out_c; i++) {
        tc_scalar_row_0(p, all + 3 * i, o + i, n, y + o + i, p->out_c);
    }
}

/* The ways to finish, with (c) and without a clamp of its own: layers have the one that they take as a
 * pointer. */
#define TC_SCALAR_WAY(way, finish, clamp)                                          \
    static TC_UNUSED void tc_scalar_pixels_##way(const tc_scalar_out_t *p, const int32_t *sums,              \
                                                 const int32_t *acc, int32_t o, int32_t n, int8_t *y)        \
    {                                                                              \
        tc_scalar_pixels_by(p, sums, acc, o, n, y, finish, clamp);                 \
    }                                                                              \
    static TC_UNUSED void tc_scalar_row_##way(const tc_scalar_out_t *p, const int32_t *acc, int32_t o,       \
                                              int32_t n, int8_t *y, int32_t step)                            \
    {                                                                              \
        tc_scalar_row_by(p, acc, o, n, y, step, finish, clamp);                    \
    }                                                                              \
    static TC_UNUSED void tc_scalar_dense_##way(const tc_scalar_out_t *p, const int32_t *acc, int32_t o,     \
                                                int8_t *y)                                                   \
    {                                                                              \
        tc_scalar_dense_by(p, acc, o, y, finish, clamp);                           \
    }
TC_SCALAR_WAY(1, 1, 0)
TC_SCALAR_WAY(1c, 1, 1)
TC_SCALAR_WAY(2, 2, 0)
TC_SCALAR_WAY(2c, 2, 1)
TC_SCALAR_WAY(3, 3, 0)
TC_SCALAR_WAY(3c, 3, 1)
#undef TC_SCALAR_WAY

/* The horizontal geometry of a convolution; pad: at least in_c bytes of x_zero. */
typedef struct {
    const int8_t *pad;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
} tc_scalar_window_t;

/* Byte i of three pixels -> words step * i, step * i + 1. */
TC_INLINE void tc_scalar_pack_one(const int8_t *a, const int8_t *b, const int8_t *c, int32_t i, int32_t *to,
                                  int32_t step)
{
    const uint32_t third = (uint32_t)c[i];
    to[step * i] = (int32_t)((uint32_t)a[i] + (third << 10));
    to[step * i + 1] = (int32_t)((uint32_t)b[i] + (third << 21));
}

/* Bytes a, b, c [n] of three pixels -> [n][X1, X2]; the end of it. */
static inline int32_t *tc_scalar_pack(const int8_t *a, const int8_t *b, const int8_t *c, int32_t n,
                                      int32_t *to)
{
    for (int32_t i = 0; i < n; i++, to += 2) {
        const uint32_t third = (uint32_t)c[i];
        to[0] = (int32_t)((uint32_t)a[i] + (third << 10));
        to[1] = (int32_t)((uint32_t)b[i] + (third << 21));
    }
    return to;
}

/* The same four at a time, a pixel's words `step` apart, which is a literal. */
TC_INLINE int32_t *tc_scalar_pack_fours(const int8_t *a, const int8_t *b, const int8_t *c, int32_t n,
                                        int32_t *to, int32_t step)
{
    int32_t left = n;
    for (; left >= 4; left -= 4, a += 4, b += 4, c += 4, to += 4 * step) {
        tc_scalar_pack_one(a, b, c, 0, to, step);
        tc_scalar_pack_one(a, b, c, 1, to, step);
        tc_scalar_pack_one(a, b, c, 2, to, step);
        tc_scalar_pack_one(a, b, c, 3, to, step);
    }
    for (; left > 0; left--, a++, b++, c++, to += step) {
        tc_scalar_pack_one(a, b, c, 0, to, step);
    }
    return to;
}

/* The taps of n <= 3 pixels from ox on, then zeros up to `taps`. step: words from a tap to the next; fours:
 * whether four are packed at a time. Both are literals. */
TC_INLINE void tc_scalar_gather_by(const tc_scalar_window_t *p, const int8_t *const *x, int32_t ox, int32_t n,
                                   int32_t taps, int32_t *to, int32_t step, int32_t fours)
{
    int32_t *const end = to + step * taps;
    const int32_t first = ox * p->stride_w - p->pad_left, ahead = p->stride_w * p->in_c;
    const int32_t inside = n == 3 && first >= 0 && first + 2 * p->stride_w + p->k_w <= p->in_w;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        if (inside && p->dilation_w == 1) {
            const int8_t *const from = x[ky] + first * p->in_c;
            const int32_t count = p->k_w * p->in_c;
            to = fours ? tc_scalar_pack_fours(from, from + ahead, from + 2 * ahead, count, to, step)
                : tc_scalar_pack(from, from + ahead, from + 2 * ahead, count, to);
            continue;
        }
        for (int32_t kx = 0; kx < p->k_w; kx++) {
            const int8_t *from[3];
            int32_t ix = first + kx * p->dilation_w;
            for (int32_t i = 0; i < 3; i++, ix += p->stride_w) {
                from[i] = i < n && ix >= 0 && ix < p->in_w ? x[ky] + ix * p->in_c : p->pad;
            }
            to = fours ? tc_scalar_pack_fours(from[0], from[1], from[2], p->in_c, to, step)
                : tc_scalar_pack(from[0], from[1], from[2], p->in_c, to);
        }
    }
    for (; to < end; to += step) {
        to[0] = to[1] = 0;
    }
}

static inline void tc_scalar_gather(const tc_scalar_window_t *p, const int8_t *const *x, int32_t ox,
                                    int32_t n, int32_t taps, int32_t *to)
{
    tc_scalar_gather_by(p, x, ox, n, taps, to, 2, 0);
}

#endif
