/* SPDX-License-Identifier: 0BSD */
/* Mean over all pixels of an image, int16, one input row per call.
 *
 *   y[c] = clamp(requantize(sum over all pixels of (x[..][c] - x_zero), mult, shift) + y_zero, -32768, 32767)
 *
 * mult and shift contain 1/n (tc_mean_s16.h). x: row `row` of the image, s16 [in_w][in_c]. sums: int32
 * [in_c], kept from row 0 to row in_h - 1, the call that writes y [in_c]; the others leave y alone. y may not
 * overlap sums or x.
 */
#ifndef TC_MEAN_ROWS_S16_H
#define TC_MEAN_ROWS_S16_H

#include "tc_math.h"

typedef struct {
    int32_t in_h, in_w, in_c;
    int32_t x_zero, mult, shift, y_zero;
    int32_t rounds;
} tc_mean_rows_s16_t;

static void tc_mean_rows_s16(const tc_mean_rows_s16_t *p, const int16_t *x, void *sums, int32_t row,
                             int16_t *y)
{
    const int32_t zeros = p->in_h * p->in_w * p->x_zero;
    int32_t *acc = (int32_t *)sums;

    for (int32_t c = 0; c < p->in_c; c++) {
        int32_t sum = row == 0 ? 0 : acc[c];
        for (int32_t ix = 0; ix < p->in_w; ix++) {
            sum += x[ix * p->in_c + c];
        }
        acc[c] = sum;
    }
    for (int32_t c = 0; row == p->in_h - 1 && c < p->in_c; c++) {
        const int32_t q = tc_requantize(acc[c] - zeros, p->mult, p->shift, p->rounds) + p->y_zero;
        y[c] = (int16_t)tc_clamp(q, -32768, 32767);
    }
}

#endif
