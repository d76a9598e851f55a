/* SPDX-License-Identifier: 0BSD */
/* Depthwise convolution down a single column of pixels on RV32IM (tc_rv32.h): in plain C what the functions
 * in assembly compute that the compiler writes for single layers (tinyc/kernels/scalar/rv32_columns.py).
 *
 *   sum = sum over k of x[r + k][c] * w[c][k]
 *   y[r][c] = tc_rv32_finish of it
 *
 * x [out_h + k_h - 1][out_c]. y [out_h][out_c], may be x. w [out_c][k_h]. channels [out_c][start, mult, add,
 * shift].
 */
#ifndef TC_RV32_COLUMNS_H
#define TC_RV32_COLUMNS_H

#include "tc_rv32.h"

typedef struct {
    int32_t k_h, out_h, out_c, scale, sign, y_min, y_max;
} tc_rv32_columns_t;

static TC_UNUSED void tc_rv32_columns(const tc_rv32_columns_t *p, const int8_t *w, const int32_t *channels,
                                      const int8_t *x, int8_t *y)
{
    for (int32_t c = 0; c < p->out_c; c++, w += p->k_h, channels += 4) {
        for (int32_t r = 0; r < p->out_h; r++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < p->k_h; k++) {
                sum += x[(r + k) * p->out_c + c] * w[k];
            }
            y[r * p->out_c + c] = tc_rv32_finish(sum, p->scale, channels, p->sign, p->y_min, p->y_max);
        }
    }
}

#endif
