/* SPDX-License-Identifier: 0BSD */
/* Mean over all pixels of an image, float32, one input row per call: 0 + the first pixel + the second ...,
 * divided by count.
 *
 * x: row `row` of the image [in_w][in_c]. sums: float [in_c], kept from row 0 to row in_h - 1, the call that
 * writes y [in_c]; the others leave y alone. y may not overlap sums or x.
 */
#ifndef TC_MEAN_ROWS_F32_H
#define TC_MEAN_ROWS_F32_H

#include "tc_float.h"

typedef struct {
    int32_t in_h, in_w, in_c;
    float count;
} tc_mean_rows_f32_t;

static void tc_mean_rows_f32(const tc_mean_rows_f32_t *p, const float *x, void *sums, int32_t row, float *y)
{
    float *acc = (float *)sums;

    for (int32_t c = 0; c < p->in_c; c++) {
        float sum = row == 0 ? 0.0f : acc[c];
        for (int32_t i = 0; i < p->in_w; i++) {
            sum += x[i * p->in_c + c];
        }
        acc[c] = sum;
        if (row == p->in_h - 1) y[c] = sum / p->count;
    }
}

#endif
