/* SPDX-License-Identifier: 0BSD */
/* Average over a whole image, int8, one input row per call. Input and output share scale and zero point.
 *
 *   y[c] = clamp(round(sum over all pixels of x[..][c] / n), y_min, y_max), halves away from zero
 *
 * x: row `row` of the image, s8 [in_w][in_c]. sums: int32 [in_c], kept from row 0 to row in_h - 1, the call
 * that writes y [in_c]; the others leave y alone. n = in_h * in_w. y may not overlap sums or x.
 */
#ifndef TC_AVG_POOL2D_ROWS_S8_H
#define TC_AVG_POOL2D_ROWS_S8_H

#include "tc_row_sums.h"

typedef struct {
    int32_t in_h, in_w, in_c;
    int32_t y_min, y_max;
} tc_avg_pool2d_rows_s8_t;

static void tc_avg_pool2d_rows_s8(const tc_avg_pool2d_rows_s8_t *p, const int8_t *x, void *sums, int32_t row,
                                  int8_t *y)
{
    const int32_t n = p->in_h * p->in_w;
    int32_t *acc = (int32_t *)sums;

    tc_row_sums(acc, x, p->in_w, p->in_c, row);
    for (int32_t c = 0; row == p->in_h - 1 && c < p->in_c; c++) {
        y[c] = (int8_t)tc_clamp((acc[c] > 0 ? acc[c] + n / 2 : acc[c] - n / 2) / n, p->y_min, p->y_max);
    }
}

#endif
