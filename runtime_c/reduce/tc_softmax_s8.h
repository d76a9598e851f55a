/* SPDX-License-Identifier: 0BSD */
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

static TC_ALONE void tc_softmax_s8(const tc_softmax_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        const tc_softmax_row_t row = tc_softmax_row(p, x);
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = (int8_t)tc_clamp(tc_softmax_share(p, row, x[c], 8) - 128, -128, 127);
        }
    }
}

#endif
