/* Softmax over the last axis, int8 in and out (output scale 1/256, zero point -128), fixed point.
 *
 *   e[c] = exps[max - x[c]], 0 beyond the table       Q0.31, from the compiler
 *   y[c] = clamp(round(e[c] / sum(e) * 256) - 128, -128, 127)
 *
 * The bits are those of TensorFlow Lite Micro's reference kernel: sum in Q12.19, its reciprocal by
 * three Newton steps, rounding doubling high multiplies. depth <= 4095. y may be x. No scratch.
 */
#ifndef TC_SOFTMAX_S8_H
#define TC_SOFTMAX_S8_H

#include "tc_softmax_fixed.h"

static void tc_softmax_s8(const tc_softmax_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        int32_t max = x[0];
        int32_t sum = 0;
        int32_t headroom = 0;

        for (int32_t c = 1; c < p->depth; c++) {
            max = x[c] > max ? x[c] : max;
        }
        for (int32_t c = 0; c < p->depth; c++) {
            sum += (int32_t)(((uint32_t)tc_softmax_exp(p, max - x[c]) + (1u << 11)) >> 12);
        }
        while (((uint32_t)sum << headroom) < 0x80000000u) {
            headroom++;
        }
        const int32_t scale = tc_softmax_reciprocal((int32_t)(((uint32_t)sum << headroom) - 0x80000000u));
        const int32_t shift = 12 - headroom + 31 - 8;
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t e = tc_softmax_mul(scale, tc_softmax_exp(p, max - x[c]));
            const int32_t q = (int32_t)(((int64_t)e + ((int64_t)1 << (shift - 1))) >> shift);
            y[c] = (int8_t)tc_clamp(q - 128, -128, 127);
        }
    }
}

#endif
