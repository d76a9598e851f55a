/* SPDX-License-Identifier: 0BSD */
/* Sums of the rows of an image, one row per call.
 *
 *   sums[c] += sum over the row's pixels of x[pixel][c];   row 0 starts from zero
 *
 * x: one row s8 [pixels][channels]. sums [channels], kept by the caller from row to row; cannot overflow: the
 * compiler bounds the number of pixels.
 */
#ifndef TC_ROW_SUMS_H
#define TC_ROW_SUMS_H

#include "tc_math.h"

static inline void tc_row_sums(int32_t *sums, const int8_t *x, int32_t pixels, int32_t channels, int32_t row)
{
    for (int32_t c = 0; c < channels; c++) {
        int32_t sum = row == 0 ? 0 : sums[c];
        for (int32_t i = 0; i < pixels; i++) {
            sum += x[i * channels + c];
        }
        sums[c] = sum;
    }
}

#endif
