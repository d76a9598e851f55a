/* SPDX-License-Identifier: 0BSD */
/* Products of int16 matrices with zero points 0, of which none needs to be constant.
 *
 *   out[i][j] = clamp(scaled(sum over k of x[i][k] * y[k][j], mult, shift), -32768, 32767)
 *
 * Matrices and loops lie as in tc_batch_matmul_s8. Sums have 64 bits and stay below 2^47, scaled:
 * tc_scale_wide with rounds 4, as TensorFlow Lite has it. out may overlap no input. No scratch.
 */
#ifndef TC_BATCH_MATMUL_S16_H
#define TC_BATCH_MATMUL_S16_H

#include "tc_wide.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t rows, cols, depth;
    int32_t x_row, x_next, y_col, y_next;
    int32_t mult, shift;
} tc_batch_matmul_s16_t;

static void tc_batch_matmul_s16_row(const tc_batch_matmul_s16_t *p, const int16_t *x, const int16_t *y,
                                    int16_t *out)
{
    for (int32_t j = 0; j < p->cols; j++, y += p->y_col) {
        const int16_t *a = x, *b = y;
        int64_t acc = 0;
        for (int32_t k = 0; k < p->depth; k++, a += p->x_next, b += p->y_next) {
            acc += *a * *b;
        }
        *out++ = (int16_t)tc_clamp(tc_scale_wide(acc, p->mult, p->shift, 4), -32768, 32767);
    }
}

static void tc_batch_matmul_s16(const tc_batch_matmul_s16_t *p, const int16_t *x, const int16_t *y,
                                int16_t *out)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            const int16_t *a = x + i0 * p->a0 + i1 * p->a1;
            const int16_t *b = y + i0 * p->b0 + i1 * p->b1;
            for (int32_t row = 0; row < p->rows; row++, a += p->x_row, out += p->cols) {
                tc_batch_matmul_s16_row(p, a, b, out);
            }
        }
    }
}

#endif
