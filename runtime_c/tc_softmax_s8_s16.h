/* Softmax over the last axis, int8 in, int16 out (output scale 1/65536, zero point -32768), fixed point.
 *
 *   e[c] = exps[max - x[c]], 0 beyond the table       Q0.31, from the compiler
 *   y[c] = clamp(round(e[c] / sum(e) * 65536) - 32768, -32768, 32767)
 *
 * tc_softmax_s8 with a wider output, and the bits of TensorFlow Lite Micro's reference kernel too. depth <= 4095.
 * y may not overlap x. No scratch.
 */
#ifndef TC_SOFTMAX_S8_S16_H
#define TC_SOFTMAX_S8_S16_H

#include "tc_softmax_fixed.h"

static void tc_softmax_s8_s16(const tc_softmax_s8_t *p, const int8_t *x, int16_t *y)
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
        const int32_t shift = 12 - headroom + 31 - 16;
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t e = tc_softmax_mul(scale, tc_softmax_exp(p, max - x[c]));
            const int32_t q = (int32_t)(((int64_t)e + ((int64_t)1 << (shift - 1))) >> shift);
            y[c] = (int16_t)tc_clamp(q - 32768, -32768, 32767);
        }
    }
}

#endif
