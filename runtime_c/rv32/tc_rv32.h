/* SPDX-License-Identifier: 0BSD */
/* Convolutions on RV32IM: three pixels in two words (tc_scalar.h says how), four or eight output channels
 * at a time.
 *
 * A core with 31 registers keeps sixteen sums there, of three pixels and eight channels or of six and four,
 * so that a tap of all of them costs two loads of the input and eight of weights, or four and four, and
 * sixteen times MUL and ADD. The way from a sum to int8 is proved for the layer
 * (tinyc/kernels/requantize.py):
 *
 *   x = sum * 2^scale + start,   y = clamp((high word of x * mult + add) >> shift)
 *
 * with `sign`, the high word is rounded and 1 is subtracted for x < 0. Other machines run the same in C.
 */
#ifndef TC_RV32_H
#define TC_RV32_H

#include "tc_scalar.h"

typedef struct {
    int32_t start, mult, add, shift;
} tc_rv32_channel_t;

typedef struct {
    const int32_t *channels; /* [out_c][start, mult, add, shift] */
    int32_t out_c, scale, sign, y_min, y_max;
    int32_t plain; /* whether scale is 11, and sign and every add are 0 */
} tc_rv32_out_t;

/* The two functions of a tile of 3 * groups pixels and `lanes` channels. */
typedef void tc_rv32_dot_t(const int32_t *x, const int8_t *w, int32_t fours, int32_t *p);
typedef void tc_rv32_blocks_t(const int32_t *x, const int8_t *w, int32_t fours, const tc_rv32_out_t *p,
                              int32_t blocks, int8_t *y, const int32_t *places);

/* blocks, dot: NULL where a layer does not ask for them. */
typedef struct {
    int32_t groups, lanes;
    tc_rv32_blocks_t *blocks;
    tc_rv32_dot_t *dot;
} tc_rv32_tile_t;

TC_INLINE int32_t tc_rv32_output(int32_t sum, int32_t scale, const tc_rv32_channel_t *channel, int32_t sign,
                                 int32_t least, int32_t greatest)
{
    const int32_t x = (int32_t)(((uint32_t)sum << scale) + (uint32_t)channel->start);
    const int64_t product = (int64_t)x * channel->mult;
    int32_t t = (int32_t)((product + (sign ? (int64_t)1 << 31 : 0)) >> 32) + channel->add;
    if (sign) t += x >> 31;
    return tc_clamp(t >> channel->shift, least, greatest);
}

/* sums [lanes][P1, P2] of channels from o on, and acc [lanes][3] of earlier segments or NULL -> y [n][out_c],
 * n <= 3; sign: a literal. */
TC_INLINE void tc_rv32_store_by(const tc_rv32_out_t *p, const int32_t *sums, const int32_t *acc, int32_t o,
                                int32_t lanes, int32_t n, int8_t *y, int32_t sign)
{
    const int32_t step = p->out_c, scale = p->scale, least = p->y_min, greatest = p->y_max;
    const tc_rv32_channel_t *channel = (const tc_rv32_channel_t *)(const void *)(p->channels + 4 * o);
    const int32_t *const end = sums + 2 * (step - o < lanes ? step - o : lanes);
    y += o;
    if (n == 3 && !acc) {
        int8_t *second = y + step, *third = second + step;
        for (; sums < end; sums += 2, channel++) {
            const tc_rv32_channel_t now = *channel;
            int32_t a, b, c;
            tc_scalar_split(sums, &a, &b, &c);
            *y++ = (int8_t)tc_rv32_output(a, scale, &now, sign, least, greatest);
            *second++ = (int8_t)tc_rv32_output(b, scale, &now, sign, least, greatest);
            *third++ = (int8_t)tc_rv32_output(c, scale, &now, sign, least, greatest);
        }
        return;
    }
    for (; sums < end; sums += 2, channel++, y++) {
        int32_t a, b, c;
        tc_scalar_split(sums, &a, &b, &c);
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
                                    int32_t o, int32_t lanes, int32_t n, int8_t *y)
{
    if (p->sign) {
        tc_rv32_store_by(p, sums, acc, o, lanes, n, y, 1);
    } else {
        tc_rv32_store_by(p, sums, acc, o, lanes, n, y, 0);
    }
}

/* Adds the dot products of `count` channels to acc [count][3]. */
static TC_UNUSED void tc_rv32_add(const int32_t *p, int32_t count, int32_t *acc)
{
    for (const int32_t *end = p + 2 * count; p < end; p += 2, acc += 3) {
        int32_t a, b, c;
        tc_scalar_split(p, &a, &b, &c);
        acc[0] += a;
        acc[1] += b;
        acc[2] += c;
    }
}

static TC_UNUSED void tc_rv32_gather(const tc_scalar_window_t *p, const int8_t *const *x, int32_t ox,
                                     int32_t n, int32_t taps, int32_t *to)
{
    tc_scalar_gather_by(p, x, ox, n, taps, to, 2, 1);
}

/* The same of n <= 6 pixels, the words of the second three beside those of the first. */
static TC_UNUSED void tc_rv32_gather6(const tc_scalar_window_t *p, const int8_t *const *x, int32_t ox,
                                      int32_t n, int32_t taps, int32_t *to)
{
    tc_scalar_gather_by(p, x, ox, n < 3 ? n : 3, taps, to, 4, 1);
    tc_scalar_gather_by(p, x, ox + 3, n < 3 ? 0 : n - 3, taps, to + 2, 4, 1);
}

#if !TC_RV32_ASM

/* The way of functions that the compiler writes for single layers: sums of layers with `sign` come twice as
 * large, and so does what the sign takes off (tinyc/kernels/scalar/rv32_finish.py). channel [start, mult,
 * add, shift]. */
TC_INLINE int8_t tc_rv32_finish(int32_t sum, int32_t scale, const int32_t *channel, int32_t sign,
                                int32_t least, int32_t greatest)
{
    const int32_t x = (int32_t)(((uint32_t)sum << scale) + (uint32_t)channel[0]);
    const int32_t high = (int32_t)((int64_t)x * channel[1] >> 32);
    return (int8_t)tc_clamp((high - (sign && high < 0 ? 2 : 0) + channel[2]) >> channel[3], least, greatest);
}

/* 4 * fours taps x [taps][groups][X1, X2] times w [taps][lanes] -> p [groups][lanes][P1, P2]: in plain C what
 * the functions in assembly compute that the compiler prints (tinyc/kernels/scalar/rv32_blocks.py). */
static TC_UNUSED void tc_rv32_dot(const int32_t *x, const int8_t *w, int32_t fours, int32_t *p,
                                  int32_t groups, int32_t lanes)
{
    tc_clear(p, 2 * groups * lanes);
    for (const int32_t *end = x + 8 * groups * fours; x < end; x += 2 * groups, w += lanes) {
        for (int32_t i = 0; i < groups * lanes; i++) {
            const uint32_t *const two = (const uint32_t *)(const void *)x + 2 * (i / lanes);
            const uint32_t weight = (uint32_t)w[i % lanes];
            p[2 * i] = (int32_t)((uint32_t)p[2 * i] + two[0] * weight);
            p[2 * i + 1] = (int32_t)((uint32_t)p[2 * i + 1] + two[1] * weight);
        }
    }
}

/* 4 * fours taps x [taps][X1, X2] times w [taps] >> 0, 4, ... 28 -> p [8][P1, P2]. */
static TC_UNUSED void tc_rv32_nibbles(const int32_t *x, const int32_t *w, int32_t fours, int32_t *p)
{
    tc_clear(p, 16);
    for (const int32_t *end = x + 8 * fours; x < end; x += 2, w++) {
        for (int32_t i = 0; i < 8; i++) {
            const uint32_t weight = (uint32_t)(*w >> 4 * i);
            p[2 * i] = (int32_t)((uint32_t)p[2 * i] + (uint32_t)x[0] * weight);
            p[2 * i + 1] = (int32_t)((uint32_t)p[2 * i + 1] + (uint32_t)x[1] * weight);
        }
    }
}

/* Whole blocks of channels, w [block][4 * fours][lanes], of packed taps x [4 * fours][groups][X1, X2] -> y,
 * pixels at places [3 * groups]; p is `plain`. The twin of functions in assembly, which write pixels with the
 * same place from the last to the first. */
static TC_UNUSED void tc_rv32_blocks(const int32_t *x, const int8_t *w, int32_t fours, const tc_rv32_out_t *p,
                                     int32_t blocks, int8_t *y, const int32_t *places, int32_t groups,
                                     int32_t lanes)
{
    for (int32_t o = 0; o < blocks * lanes; o += lanes, w += 4 * fours * lanes) {
        int32_t sums[16];
        tc_rv32_dot(x, w, fours, sums, groups, lanes);
        for (int32_t i = groups * lanes - 1; i >= 0; i--) {
            const int32_t channel = o + i % lanes, *const at = places + 3 * (i / lanes);
            const int32_t *const k = p->channels + 4 * channel;
            const tc_rv32_channel_t now = {k[0], k[1], 0, k[3]};
            int32_t a, b, c;
            tc_scalar_split(sums + 2 * i, &a, &b, &c);
            y[at[2] + channel] = (int8_t)tc_rv32_output(c, 11, &now, 0, p->y_min, p->y_max);
            y[at[1] + channel] = (int8_t)tc_rv32_output(b, 11, &now, 0, p->y_min, p->y_max);
            y[at[0] + channel] = (int8_t)tc_rv32_output(a, 11, &now, 0, p->y_min, p->y_max);
        }
    }
}

#endif

#endif
