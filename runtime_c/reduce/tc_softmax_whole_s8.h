/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis, int8 in and out (output scale 1/255, zero point -128), fixed point.
 *
 *   e[c] = exps[max - x[c]], 0 beyond the table       Q0.31, from the compiler
 *   y[c] = round(e[c] / sum(e) * 255) - 128
 *
 * As tc_softmax_s8 computes it, with 255/256 of the reciprocal: one element that has it all is 127, a whole
 * 1, where a scale of 1/256 ends a step below. depth <= 4095. y may be x. No scratch.
 */
#ifndef TC_SOFTMAX_WHOLE_S8_H
#define TC_SOFTMAX_WHOLE_S8_H

#include "tc_softmax_fixed.h"

static TC_ALONE void tc_softmax_whole_s8(const tc_softmax_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        tc_softmax_row_t row = tc_softmax_row(p, x);
        row.scale -= (int32_t)(((uint32_t)row.scale + 128u) >> 8);
        for (int32_t c = 0; c < p->depth; c++) {
            y[c] = (int8_t)(tc_softmax_share(p, row, x[c], 8) - 128);
        }
    }
}

#endif
