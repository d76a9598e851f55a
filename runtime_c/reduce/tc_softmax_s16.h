/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis, int16 in and out (output scale 1/32768, zero point 0), fixed point.
 *
 *   e[c] = exp_table at requantize(x[c] - max, mult, shift) + 32767, clamped to int16     Q0.15
 *   y[c] = clamp(round(e[c] * r >> n), 0, 32767), r = 1 / (1 + f) by the second table,
 *          sum(e) = (1 + f) * 2^k in Q0.15
 *
 * Tables have 513 entries: 512 intervals of 128 steps from -32768 on, interpolated. exp_table spans [-10, 0],
 * reciprocal_table 1 / (1 + f) for f in [0, 1]. The bits are those of TensorFlow Lite Micro's reference
 * kernel.
 * scratch: 2 * depth bytes. depth < 65536. y may be x.
 */
#ifndef TC_SOFTMAX_S16_H
#define TC_SOFTMAX_S16_H

#include "tc_math.h"

typedef struct {
    const int16_t *exp_table;        /* [513] */
    const int16_t *reciprocal_table; /* [513] */
    int32_t mult, shift;
    int32_t outer, depth;
} tc_softmax_s16_t;

static inline int32_t tc_softmax_s16_look_up(const int16_t *table, int32_t v)
{
    const int32_t index = 256 + (v >> 7);
    const int32_t slope = table[index + 1] - table[index];
    return table[index] + ((slope * (v & 127) + 64) >> 7);
}

static void tc_softmax_s16(const tc_softmax_s16_t *p, const int16_t *x, int16_t *y, void *scratch)
{
    int16_t *e = (int16_t *)scratch;

    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        int32_t max = x[0];
        int32_t sum = 0;
        int32_t zeros = 0;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t scaled = tc_requantize_double(x[c] - max, p->mult, p->shift) + 32767;
            e[c] = (int16_t)tc_softmax_s16_look_up(p->exp_table, tc_clamp(scaled, -32768, 32767));
            sum += e[c];
        }
        while (((uint32_t)sum << zeros) < 0x80000000u) {
            zeros++;
        }
        const int32_t shifted = (int32_t)((((int64_t)sum << (zeros - 1)) + (1 << 13)) >> 14);
        const int32_t f = tc_clamp(shifted - ((1 << 15) + (1 << 16)), -32768, 32767);
        const int32_t reciprocal = tc_softmax_s16_look_up(p->reciprocal_table, f);
        const int32_t right = 31 - zeros;
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t q = (int32_t)(((int64_t)e[c] * reciprocal + ((int64_t)1 << (right - 1))) >> right);
            y[c] = (int16_t)tc_clamp(q, 0, 32767);
        }
    }
}

#endif
