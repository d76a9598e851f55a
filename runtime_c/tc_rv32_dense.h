/* SPDX-License-Identifier: 0BSD */
/* Fully connected on RV32IM (tc_rv32.h); int8 and int4 weights differ in the sums.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points. x [batch][in_c]. y [batch][out_c], may not
 * overlap x.
 *
 * int8: a word W = u0 + 2^8 u1 + 2^16 u2 + 2^24 w3 holds the weights of an input for four outputs, u the weight
 * plus 128. Of an input x two products are taken: T0 of W, and T1 of u1 + 2^16 w3, the high word of the
 * product of W's bytes 1 and 3 with 2^24 x. Summed over a segment of inputs, whose sum is X,
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

/* x [segments][inputs of a segment] times w [segments][inputs][lanes / 4], plus more [lanes] or NULL -> y
 * [lanes]. starts [segments][T0, T1]. channels [lanes][start, mult, add, shift]. */
typedef void tc_rv32_dense_t(const int8_t *x, const int32_t *w, int32_t segments, const uint32_t *starts,
                             const int32_t *more, const int32_t *channels, int8_t *y, const tc_rv32_out_t *p);

typedef struct {
    int32_t lanes;
    tc_rv32_dense_t *make;
} tc_rv32_lanes_t;

typedef struct {
    int32_t count, inputs;    /* of segments; of a segment */
    tc_rv32_lanes_t tiles[2]; /* as long as there are outputs for all lanes of it the first, then the second */
} tc_rv32_segments_t;

/* In plain C what functions in assembly compute that the compiler prints
 * (tinyc/kernels/scalar/rv32_dense.py). */
static TC_UNUSED void tc_rv32_dense(const int8_t *x, const int32_t *w, int32_t segments, const uint32_t *starts,
                                    const int32_t *more, int32_t *sums, int32_t segment, int32_t words)
{
    tc_clear(sums, 4 * words);
    for (int32_t word = 0; word < words; word++) {
        uint32_t *const all = (uint32_t *)(void *)sums + 4 * word, *const high = all + 2;
        const int32_t *now = w + word;
        for (int32_t done = 0, i = 0; done < segments; done++) {
            uint32_t both[2] = {starts[2 * done], starts[2 * done + 1]};
            for (const int32_t end = i + segment; i < end; i++, now += words) {
                both[0] += (uint32_t)*now * (uint32_t)x[i];
                both[1] += (uint32_t)((*now >> 8 & 255) + (*now >> 24) * 65536) * (uint32_t)x[i];
            }
            both[0] -= both[1] << 8;
            for (int32_t k = 0; k < 2; k++) {
                all[k] += both[k] - 0x8000u;
                high[k] += (uint32_t)((int32_t)both[k] >> 16);
            }
        }
        all[0] -= high[0] << 16;
        all[1] -= high[1] << 16;
    }
    for (int32_t i = 0; more && i < 4 * words; i++) {
        sums[i] += more[i];
    }
}

static TC_UNUSED void tc_rv32_dense_bytes(const tc_rv32_out_t *p, const int32_t *sums, const int32_t *channels,
                                          int8_t *y, int32_t lanes, int32_t sign)
{
    for (int32_t i = 0; i < lanes; i++, channels += 4) {
        const tc_rv32_channel_t now = {channels[0], channels[1], channels[2], channels[3]};
        y[i] = (int8_t)tc_rv32_output(sums[i], p->scale, &now, sign, p->y_min, p->y_max);
    }
}

/* x [4 * fours] times w [4 * fours] >> 0, 4, ... 28, added to sums [8]. fours > 0. */
typedef void tc_rv32_dense_nibbles_t(const int8_t *x, const int32_t *w, int32_t fours, int32_t *sums);

static TC_UNUSED void tc_rv32_dense_nibbles(const int8_t *x, const int32_t *w, int32_t fours, int32_t *sums)
{
    for (const int8_t *const end = x + 4 * fours; x < end; x++, w++) {
        for (int32_t i = 0; i < 8; i++) {
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(int32_t)*x * (uint32_t)(*w >> 4 * i));
        }
    }
}

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

static TC_UNUSED void tc_rv32_dense_store(const tc_rv32_out_t *p, const int32_t *sums, int32_t count, int32_t o,
                                          int8_t *y)
{
    if (p->sign) {
        tc_rv32_dense_store_by(p, sums, count, o, y, 1);
    } else {
        tc_rv32_dense_store_by(p, sums, count, o, y, 0);
    }
}

#endif
