/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis, int8 in, int16 out (output scale 1/65536, zero point -32768), fixed point.
 *
 *   e[c] = exps[max - x[c]], 0 beyond the table       Q0.31, from the compiler
 *   y[c] = clamp(round(e[c] / sum(e) * 65536) - 32768, -32768, 32767)
 *
 * tc_softmax_s8 with a wider output, and the bits of TensorFlow Lite Micro's reference kernel too. depth <=
 * 4095. y may not overlap x. No scratch.
 */
#ifndef TC_SOFTMAX_S8_S16_H
#define TC_SOFTMAX_S8_S16_H

#include "tc_softmax_fixed.h"

static void tc_softmax_s8_s16(const tc_softmax_s8_t *p, const int8_t *x, int16_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        const tc_softmax_row_t row = tc_softmax_row(p, x);
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = (int16_t)tc_clamp(tc_softmax_share(p, row, x[c], 16) - 32768, -32768, 32767);
        }
    }
}

#endif
