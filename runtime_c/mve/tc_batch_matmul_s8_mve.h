/* SPDX-License-Identifier: 0BSD */
/* Products of int8 matrices with Helium (MVE): the bytes of tc_batch_matmul_s8.
 *
 * x, y, out and the loops as there. A matrix of y is widened once and multiplied with two rows of x at a
 * time. scratch, at words: int16, eight for each eight steps of the sum and two rows, then for each eight of
 * them and each four columns 32.
 */
#ifndef TC_BATCH_MATMUL_S8_MVE_H
#define TC_BATCH_MATMUL_S8_MVE_H

#include "tc_matmul_mve.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t rows, cols, depth;
    int32_t x_row, x_next, y_col, y_next;
    int32_t x_zero, y_zero;
    tc_matmul_mve_t requant;
} tc_batch_matmul_s8_mve_t;

static void tc_batch_matmul_s8_mve_one(const tc_batch_matmul_s8_mve_t *p, tc_matmul_mve_job_t *job,
                                       const int8_t *x, int16_t *xs, int8_t *out)
{
    for (int32_t row = 0; row < p->rows; row += 2) {
        const int32_t other = row + 1 < p->rows ? row + 1 : row;
        tc_matmul_mve_widen(x + row * p->x_row, p->depth, p->x_next, p->x_zero, xs);
        tc_matmul_mve_widen(x + other * p->x_row, p->depth, p->x_next, p->x_zero, xs + 8 * job->eights);
        job->y0 = out + row * p->cols;
        job->y1 = out + other * p->cols;
        tc_matmul_mve_rows(&p->requant, job);
    }
}

static void tc_batch_matmul_s8_mve(const tc_batch_matmul_s8_mve_t *p, const int8_t *x, const int8_t *y,
                                   int8_t *out, void *scratch)
{
    const int8_t *widened = 0;
    const int32_t eights = (p->depth + 7) >> 3;
    int16_t *xs = (int16_t *)scratch, *ys = xs + 16 * eights;
    tc_matmul_mve_job_t job = {xs, ys, eights, p->cols, 0, 0};

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++, out += p->rows * p->cols) {
            const int8_t *b = y + i0 * p->b0 + i1 * p->b1;
            if (b != widened) {
                tc_matmul_mve_columns(b, p->depth, p->cols, p->y_next, p->y_col, p->y_zero, ys);
                widened = b;
            }
            tc_batch_matmul_s8_mve_one(p, &job, x + i0 * p->a0 + i1 * p->a1, xs, out);
        }
    }
}

#endif
