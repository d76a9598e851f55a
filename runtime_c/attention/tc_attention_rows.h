/* SPDX-License-Identifier: 0BSD */
/* Attention in plain C: the products of a row. */
#ifndef TC_ATTENTION_ROWS_H
#define TC_ATTENTION_ROWS_H

#include "tc_attention.h"

typedef struct {
    int32_t mult, shift, rounds, out_zero;
} tc_attention_product_t;

/* out[j] of a row x[depth] and columns y[depth][cols]: four columns at a time share the loads of x. */
static TC_UNUSED void tc_attention_product(const tc_attention_product_t *p, const int8_t *x, int32_t x_next,
                                           int32_t x_zero, const int8_t *y, int32_t down, int32_t right,
                                           int32_t y_zero, int32_t depth, int32_t cols, int8_t *out)
{
    int32_t sum_x = 0;

    for (int32_t k = 0; k < depth; k++) {
        sum_x += x[k * x_next] - x_zero;
    }
    sum_x *= y_zero;
    for (int32_t j = 0; j < cols; j += 4, y += 4 * right) {
        const int32_t n = cols - j < 4 ? cols - j : 4; /* columns beyond the last repeat it */
        const int32_t at1 = n > 1 ? right : 0, at2 = n > 2 ? 2 * right : at1, at3 = n > 3 ? 3 * right : at2;
        const int8_t *a = x, *b = y;
        int32_t acc[4] = {-sum_x, -sum_x, -sum_x, -sum_x};
        for (int32_t k = 0; k < depth; k++, a += x_next, b += down) {
            const int32_t v = *a - x_zero;
            acc[0] += v * b[0];
            acc[1] += v * b[at1];
            acc[2] += v * b[at2];
            acc[3] += v * b[at3];
        }
        for (int32_t i = 0; i < n; i++) {
            *out++ = (int8_t)tc_clamp(tc_requantize(acc[i], p->mult, p->shift, p->rounds) + p->out_zero, -128,
                                      127);
        }
    }
}

#endif
