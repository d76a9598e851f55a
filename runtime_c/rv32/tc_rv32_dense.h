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

/* ---- int8 weights ---- */

/* w: of twelve or eight outputs [inputs][words of four], of the rest as many words as it takes; inputs: of
 * whole segments, no weights beyond the last output and input. fixes: of tc_rv32_dense_out_t. out.channels: a
 * multiple of four of them. */
typedef struct {
    const int32_t *w;
    const int16_t *fixes;
    tc_rv32_out_t out;
    int32_t batch, in_c;
} tc_fully_connected_s8_rv32_t;

/* starts: room for two words of each segment. held: room for the inputs of whole segments, or NULL where in_c
 * is so many. */
static TC_UNUSED void tc_fully_connected_s8_rv32(const tc_fully_connected_s8_rv32_t *p,
                                                 const tc_rv32_segments_t *segments, const int8_t *x,
                                                 int8_t *y, uint32_t *starts, int8_t *held)
{
    const int32_t out_c = p->out.out_c, inputs = segments->count * segments->inputs;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int32_t *w = p->w;
        tc_rv32_dense_out_t out = {p->fixes, p->out.scale, p->out.y_min, p->out.y_max};
        const int8_t *from = x;
        if (held) {
            for (int32_t i = 0; i < inputs; i++) {
                held[i] = i < p->in_c ? x[i] : 0;
            }
            from = held;
        }
        for (int32_t s = 0, i = 0; s < segments->count; s++) {
            int32_t sum = 0;
            for (const int32_t end = i + segments->inputs; i < end; i += 4) { /* 8 or 16 */
                sum += from[i] + from[i + 1] + from[i + 2] + from[i + 3];
            }
            const uint32_t odd = 0x8000u - ((uint32_t)sum << 7);
            starts[2 * s] = odd + (odd << 8) + (odd << 16) + 0x80000000u;
            starts[2 * s + 1] = odd;
        }
        for (int32_t tile = 0, o = 0; o < out_c; tile++) {
            const int32_t lanes = segments->tiles[tile].lanes, count = segments->tiles[tile].count;
            const int32_t made = count * lanes;
            int8_t last[12], *const to = out_c - o < made ? last : y + o;
            segments->tiles[tile].make(from, w, segments->count, starts, count, p->out.channels + 4 * o, to,
                                       &out);
            for (int32_t i = o; to == last && i < out_c; i++) {
                y[i] = last[i - o];
            }
            w += made / 4 * inputs;
            o += made;
        }
    }
}

/* ---- int4 weights ---- */

/* w [out_c / 8][in_c]: a word holds the weights of an input for eight outputs, W = d0 + 16 d1 + ... + 16^7
 * d7: d7 the weight, the others the weight + 8. The sums are taken of W >> 0, W >> 4, ... , and neighbours
 * subtracted in the end; 8 times the sum of the inputs goes as well. All exact modulo 2^32. */
typedef struct {
    const int32_t *w;
    tc_rv32_out_t out;
    int32_t batch, in_c;
} tc_fully_connected_s8_w4_rv32_t;

static TC_UNUSED void tc_fully_connected_s8_w4_rv32(const tc_fully_connected_s8_w4_rv32_t *p,
                                                    tc_rv32_dense_nibbles_t *add, const int8_t *x, int8_t *y)
{
    const int32_t out_c = p->out.out_c, in_c = p->in_c, rest = in_c & 3;

    for (int32_t b = 0; b < p->batch; b++, x += in_c, y += out_c) {
        const int32_t *w = p->w;
        int32_t x_sum = 0;
        for (int32_t i = 0; i < in_c; i++) {
            x_sum += x[i];
        }
        for (int32_t o = 0; o < out_c; o += 8, w += in_c) {
            int32_t sums[8];
            for (int32_t i = 0; i < 8; i++) {
                uint32_t sum = 0;
                for (int32_t tap = 0; tap < rest; tap++) {
                    sum += (uint32_t)(int32_t)x[tap] * (uint32_t)(w[tap] >> 4 * i);
                }
                sums[i] = (int32_t)sum;
            }
            if (in_c > 3) {
                add(x + rest, w + rest, in_c >> 2, sums);
            }
            for (int32_t i = 0; i < 7; i++) {
                sums[i] = (int32_t)((uint32_t)sums[i] - ((uint32_t)sums[i + 1] << 4) - 8 * (uint32_t)x_sum);
            }
            tc_rv32_dense_store(&p->out, sums, 8, o, y);
        }
    }
}

#endif
