/* SPDX-License-Identifier: 0BSD */
/* Logarithm of the softmax over the last axis, int8 in and out (output scale 1/16, zero point 127), fixed
 * point.
 *
 *   e[c] = exps[max - x[c]], 0 beyond the table                      Q0.31, from the compiler
 *   d[c] = requantize(x[c] - max, mult, shift)                       Q5.26
 *   y[c] = clamp(round((d[c] - log(sum(e))) / 2^22) + 127, -128, 127), -128 where max - x[c] > most
 *
 * The bits are those of TensorFlow Lite Micro's reference kernel: sum in Q12.19, its logarithm by gemmlowp's
 * rational function. depth <= 4095. y may be x. No scratch.
 */
#ifndef TC_LOG_SOFTMAX_S8_H
#define TC_LOG_SOFTMAX_S8_H

#include "tc_softmax_fixed.h"

typedef struct {
    const int32_t *exps; /* [exp_count], non-increasing, exps[0] = 2^31 - 1 */
    int32_t exp_count;   /* 1..256 */
    int32_t outer, depth;
    int32_t mult, shift, most;
} tc_log_softmax_s8_t;

static inline int32_t tc_log_zeros(int32_t v)
{
    int32_t zeros = 0;

    while (((uint32_t)v << zeros) < 0x80000000u) {
        zeros++;
    }
    return zeros;
}

/* log(x) in Q5.26 for x >= 1 in Q12.19. */
static inline int32_t tc_log_of_sum(int32_t x)
{
    const int32_t half_sqrt_2 = 1518500250, root_of_root_half = 1805811301;
    const int32_t zeros = tc_log_zeros(x);
    const int32_t zeros_b = tc_log_zeros(tc_softmax_mul(x, half_sqrt_2)) - 1;
    const int32_t near = tc_softmax_shift_left(tc_softmax_mul(tc_softmax_shift_left(x, zeros - 1),
                                                              half_sqrt_2), 1);
    const int32_t near_b = tc_softmax_shift_left(x, zeros_b);
    const int32_t power = (12 - zeros) * ((int32_t)1 << 25) + ((int32_t)1 << 23);
    const int32_t power_b = (12 - zeros_b) * ((int32_t)1 << 25) - ((int32_t)1 << 23);
    const int32_t r = near < near_b ? near : near_b;
    const int32_t p = (int32_t)(((int64_t)r + root_of_root_half + 1) >> 1);
    const int32_t q = (r - root_of_root_half) * 2;
    const int32_t square = tc_softmax_mul(q, q);
    const int32_t above = tc_softmax_mul(q, r) + tc_softmax_mul(tc_softmax_mul(q, square), 117049297);
    const int32_t inner = 1057819769 + q + tc_softmax_mul(127690142, square);
    const int32_t below = tc_softmax_mul(p, inner) + tc_softmax_mul(638450708, q);
    const int32_t scaled = (above + 32 - (above < 0)) >> 6;
    const int32_t fraction = tc_softmax_mul(scaled, tc_softmax_reciprocal(below));

    return tc_softmax_shift_left(tc_softmax_mul(power > power_b ? power : power_b, 1488522236) + fraction, 1);
}

static void tc_log_softmax_s8(const tc_log_softmax_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        int32_t max = x[0];
        int32_t sum = 0;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t below = max - x[c];
            const int32_t e = below < p->exp_count ? p->exps[below] : 0;
            sum += (int32_t)(((uint32_t)e + (1u << 11)) >> 12);
        }
        const int32_t log = tc_log_of_sum(sum);
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t below = max - x[c];
            int32_t q = -128;
            if (below <= p->most) {
                const int64_t v = (int64_t)tc_requantize_double(-below, p->mult, p->shift) - log;
                q = (int32_t)((v + ((int32_t)1 << 21) - (v < 0)) >> 22) + 127;
            }
            y[c] = (int8_t)tc_clamp(q, -128, 127);
        }
    }
}

#endif
