/* SPDX-License-Identifier: 0BSD */
/* Products of int8 matrices, of which none needs to be constant.
 *
 *   out[i][j] = clamp(requantize(sum over k of (x[i][k] - x_zero) * (y[k][j] - y_zero), mult,
 *       shift) + out_zero,
 *                     -128, 127)
 *
 * x[i][k] lies at x + i * x_row + k * x_next, y[k][j] at y + k * y_next + j * y_col, so each may be stored
 * either way round. Loops n0 and n1 run over the matrices of out, front to back; a step of loop k moves a<k>
 * elements in x and b<k> in y, 0 where that input repeats. out [n0][n1][rows][cols] may overlap no input. The
 * compiler bounds depth so that no sum leaves int32. No scratch.
 */
#ifndef TC_BATCH_MATMUL_S8_H
#define TC_BATCH_MATMUL_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t rows, cols, depth;
    int32_t x_row, x_next, y_col, y_next;
    int32_t x_zero, y_zero;
    int32_t mult, shift, rounds;
    int32_t out_zero;
} tc_batch_matmul_s8_t;

static inline int8_t tc_batch_matmul_finish(const tc_batch_matmul_s8_t *p, int32_t acc)
{
    return (int8_t)tc_clamp(tc_requantize(acc, p->mult, p->shift, p->rounds) + p->out_zero, -128, 127);
}

/* One row of out: four columns at a time share the loads of x, and y_zero is taken off each sum at its
 * end. */
static void tc_batch_matmul_row(const tc_batch_matmul_s8_t *p, const int8_t *x, const int8_t *y, int8_t *out)
{
    const int32_t next = p->x_next, down = p->y_next, right = p->y_col, x_zero = p->x_zero;
    int32_t sum_x = 0, j = 0;

    for (int32_t k = 0; k < p->depth; k++) {
        sum_x += x[k * next] - x_zero;
    }
    sum_x *= p->y_zero;
    for (; j + 4 <= p->cols; j += 4, y += 4 * right) {
        const int8_t *a = x, *b = y;
        int32_t acc0 = -sum_x, acc1 = -sum_x, acc2 = -sum_x, acc3 = -sum_x;
        for (int32_t k = 0; k < p->depth; k++, a += next, b += down) {
            const int32_t v = *a - x_zero;
            acc0 += v * b[0];
            acc1 += v * b[right];
            acc2 += v * b[2 * right];
            acc3 += v * b[3 * right];
        }
        *out++ = tc_batch_matmul_finish(p, acc0);
        *out++ = tc_batch_matmul_finish(p, acc1);
        *out++ = tc_batch_matmul_finish(p, acc2);
        *out++ = tc_batch_matmul_finish(p, acc3);
    }
    for (; j < p->cols; j++, y += right) {
        int32_t acc = -sum_x;
        for (int32_t k = 0; k < p->depth; k++) {
            acc += (x[k * next] - x_zero) * y[k * down];
        }
        *out++ = tc_batch_matmul_finish(p, acc);
    }
}

static void tc_batch_matmul_s8(const tc_batch_matmul_s8_t *p, const int8_t *x, const int8_t *y, int8_t *out)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            const int8_t *a = x + i0 * p->a0 + i1 * p->a1;
            const int8_t *b = y + i0 * p->b0 + i1 * p->b1;
            for (int32_t row = 0; row < p->rows; row++, a += p->x_row, out += p->cols) {
                tc_batch_matmul_row(p, a, b, out);
            }
        }
    }
}

#endif
