/* SPDX-License-Identifier: 0BSD */
/* Rows that are weighted means of rows of an int8 image.
 *
 *   y[r][i] = (sum_k w[r][k] * x[firsts[r] + k][i] + biases[r]) >> 22
 *
 * weights [out_h][taps], none negative, which sum up to about 2^22 in each row, so that no sum leaves int8. x
 * [..][n], y [out_h][n], may not overlap. The function of a row gets pointers to the rows of its window. No
 * scratch.
 */
#ifndef TC_RESAMPLE_ROWS_ROW_S8_H
#define TC_RESAMPLE_ROWS_ROW_S8_H

#include "tc_math.h"

typedef struct {
    const int16_t *firsts;
    const int32_t *weights, *biases;
    int32_t taps, out_h, n;
} tc_resample_rows_s8_t;

/* Rows at x[0], x[1] and so on, or where x is null one after the other from `from` on. */
static inline void tc_resample_line(const tc_resample_rows_s8_t *p, const int8_t *const *x,
                                    const int8_t *from, int32_t r, int8_t *y)
{
    const int32_t *const w = p->weights + r * p->taps;
    const int32_t bias = p->biases[r], taps = p->taps, n = p->n;
    int32_t i = 0;

    for (; i + 4 <= n; i += 4) {
        int32_t a = bias, b = bias, c = bias, d = bias;
        for (int32_t k = 0; k < taps; k++) {
            const int8_t *row = (x ? x[k] : from + k * n) + i;
            const int32_t weight = w[k];
            a += weight * row[0];
            b += weight * row[1];
            c += weight * row[2];
            d += weight * row[3];
        }
        y[i] = (int8_t)(a >> 22);
        y[i + 1] = (int8_t)(b >> 22);
        y[i + 2] = (int8_t)(c >> 22);
        y[i + 3] = (int8_t)(d >> 22);
    }
    for (; i < n; i++) {
        int32_t sum = bias;
        for (int32_t k = 0; k < taps; k++) {
            sum += w[k] * (x ? x[k] : from + k * n)[i];
        }
        y[i] = (int8_t)(sum >> 22);
    }
}

static inline void tc_resample_rows_row_s8(const tc_resample_rows_s8_t *p, const int8_t *const *x, int32_t r,
                                           int8_t *y)
{
    tc_resample_line(p, x, 0, r, y);
}

#endif
