/* SPDX-License-Identifier: 0BSD */
/* Fully connected on RV32IM (tc_rv32.h); int8 and int4 weights differ in the sums.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points. x [batch][in_c]. y [batch][out_c], may not
 * overlap x.
 *
 * int8: a word W = u0 + 2^8 u1 + 2^16 u2 + 2^24 w3 holds the weights of an input for four outputs, u the
 * weight plus 128. Of an input x two products are taken: T0 of W, and T1 of u1 + 2^16 w3, the high word of
 * the product of W's bytes 1 and 3 with 2^24 x. Summed over a segment of inputs, whose sum is X,
 *
 *   T1                = (D1 + 2^7 X) + 2^16 D3
 *   T0 - 2^8 T1       = (D0 + 2^7 X) + 2^16 (D2 + 2^7 X)      modulo 2^32
 *
 * The sums start at what takes X away and adds 2^15 to the lower half. D0 to D3 fit 16 bits (`fixes` add what
 * was taken off weights for that), so that the upper half is D3 or D2; over all segments, the sums less 2^16
 * times the sums of upper halves are D1 and D0.
 */
#ifndef TC_RV32_DENSE_H
#define TC_RV32_DENSE_H

#include "tc_rv32.h"

/* fixes: of each block of outputs how many, then [][4 * output, input, weight]; moves on. */
typedef struct {
    const int16_t *fixes;
    int32_t scale, y_min, y_max;
} tc_rv32_dense_out_t;

/* x [segments][inputs of a segment] times w [count][segments][inputs][lanes / 4] -> y [count][lanes]. starts
 * [segments][T0, T1]. channels [count][lanes][start, mult, add, shift]. */
typedef void tc_rv32_dense_t(const int8_t *x, const int32_t *w, int32_t segments, const uint32_t *starts,
                             int32_t count, const int32_t *channels, int8_t *y, tc_rv32_dense_out_t *p);

typedef struct {
    int32_t lanes, count; /* outputs of a call; calls */
    tc_rv32_dense_t *make;
} tc_rv32_lanes_t;

typedef struct {
    int32_t count, inputs; /* of segments; of a segment */
    tc_rv32_lanes_t tiles[2];
} tc_rv32_segments_t;

/* x [4 * fours] times w [4 * fours] >> 0, 4, ... 28, added to sums [8]. fours > 0. */
typedef void tc_rv32_dense_nibbles_t(const int8_t *x, const int32_t *w, int32_t fours, int32_t *sums);

/* sums [count] -> y of outputs from o on; sign: a literal. */
TC_INLINE void tc_rv32_dense_store_by(const tc_rv32_out_t *p, const int32_t *sums, int32_t count, int32_t o,
                                      int8_t *y, int32_t sign)
{
    const int32_t scale = p->scale, least = p->y_min, greatest = p->y_max;
    const tc_rv32_channel_t *channel = (const tc_rv32_channel_t *)(const void *)(p->channels + 4 * o);
    const int32_t *const end = sums + (p->out_c - o < count ? p->out_c - o : count);
    for (y += o; sums < end; channel++) {
        *y++ = (int8_t)tc_rv32_output(*sums++, scale, channel, sign, least, greatest);
    }
}

static TC_UNUSED void tc_rv32_dense_store(const tc_rv32_out_t *p, const int32_t *sums, int32_t count,
                                          int32_t o, int8_t *y)
{
    if (p->sign) {
        tc_rv32_dense_store_by(p, sums, count, o, y, 1);
    } else {
        tc_rv32_dense_store_by(p, sums, count, o, y, 0);
    }
}

#if !TC_RV32_ASM

/* In plain C what functions in assembly compute that the compiler prints
 * (tinyc/kernels/scalar/rv32_dense.py): four dot products of words `words` apart. */
static TC_UNUSED void tc_rv32_dense_four(const int8_t *x, const int32_t *w, int32_t segments,
                                         const uint32_t *starts, int32_t *sums, int32_t segment,
                                         int32_t words)
{
    uint32_t all[2] = {0, 0}, high[2] = {0, 0};
    for (int32_t done = 0, i = 0; done < segments; done++) {
        uint32_t both[2] = {starts[2 * done], starts[2 * done + 1]};
        for (const int32_t end = i + segment; i < end; i++, w += words) {
            both[0] += (uint32_t)*w * (uint32_t)x[i];
            both[1] += (uint32_t)((*w >> 8 & 255) + (*w >> 24) * 65536) * (uint32_t)x[i];
        }
        both[0] -= both[1] << 8;
        for (int32_t k = 0; k < 2; k++) {
            all[k] += both[k] - 0x8000u;
            high[k] += (uint32_t)((int32_t)both[k] >> 16);
        }
    }
    for (int32_t k = 0; k < 2; k++) {
        sums[k] = (int32_t)(all[k] - (high[k] << 16));
        sums[k + 2] = (int32_t)high[k];
    }
}

static TC_UNUSED void tc_rv32_dense(const int8_t *x, const int32_t *w, int32_t segments,
                                    const uint32_t *starts, int32_t count, const int32_t *channels, int8_t *y,
                                    tc_rv32_dense_out_t *p, int32_t segment, int32_t words, int32_t sign)
{
    for (; count > 0; count--, w += segments * segment * words) {
        int32_t sums[12];
        for (int32_t word = 0; word < words; word++) {
            tc_rv32_dense_four(x, w + word, segments, starts, sums + 4 * word, segment, words);
        }
        for (int32_t left = *p->fixes++; left > 0; left--, p->fixes += 3) {
            sums[p->fixes[0] / 4] += x[p->fixes[1]] * p->fixes[2];
        }
        for (int32_t i = 0; i < 4 * words; i++, channels += 4) {
            *y++ = tc_rv32_finish(sums[i], p->scale, channels, sign, p->y_min, p->y_max);
        }
    }
}

static TC_UNUSED void tc_rv32_dense_nibbles(const int8_t *x, const int32_t *w, int32_t fours, int32_t *sums)
{
    for (const int8_t *const end = x + 4 * fours; x < end; x++, w++) {
        for (int32_t i = 0; i < 8; i++) {
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(int32_t)*x * (uint32_t)(*w >> 4 * i));
        }
    }
}

#endif

#endif
