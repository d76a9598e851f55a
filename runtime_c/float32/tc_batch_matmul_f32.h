/* SPDX-License-Identifier: 0BSD */
/* Products of matrices, float32: y[m][n] = sum over k, in order, of fma(x[m][k], w[k][n], acc), acc = 0 at
 * first.
 *
 * Loops n0, n1 run over the matrices of y front to back; a step of loop k moves a<k> elements in x and b<k>
 * in w. x_row, x_next: elements from a row of x to the next, and from an element of a row to the next;
 * y_next, y_col: the same for a column of w. y may not overlap an input. No scratch.
 */
#ifndef TC_BATCH_MATMUL_F32_H
#define TC_BATCH_MATMUL_F32_H

#include "tc_float.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t rows, cols, depth, x_row, x_next, y_col, y_next;
} tc_batch_matmul_f32_t;

static inline void tc_matmul_f32(const tc_batch_matmul_f32_t *p, const float *x, const float *w, float *y)
{
    for (int32_t m = 0; m < p->rows; m++) {
        for (int32_t n = 0; n < p->cols; n++) {
            const float *a = x + m * p->x_row, *b = w + n * p->y_col;
            float acc = 0.0f;
            for (int32_t k = 0; k < p->depth; k++) {
                acc = tc_fma(a[k * p->x_next], b[k * p->y_next], acc);
            }
            *y++ = acc;
        }
    }
}

static void tc_batch_matmul_f32(const tc_batch_matmul_f32_t *p, const float *x, const float *w, float *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++, y += p->rows * p->cols) {
            tc_matmul_f32(p, x + i0 * p->a0 + i1 * p->a1, w + i0 * p->b0 + i1 * p->b1, y);
        }
    }
}

#endif
