/* SPDX-License-Identifier: 0BSD */
/* Pointers to the input rows of one output row; rows outside the image become `pad`.
 *
 * rows: count pointers out. Row k is x + (first + k * dilation) * row_bytes where that lies in
 * [0, in_h), else pad, which must hold a whole row of zero points.
 */
#ifndef TC_ROWS_H
#define TC_ROWS_H

#include "tc_math.h"

static inline void tc_rows(const int8_t **rows, const int8_t *x, int32_t first, int32_t dilation,
                           int32_t count, int32_t in_h, int32_t row_bytes, const int8_t *pad)
{
    for (int32_t k = 0; k < count; k++) {
        const int32_t row = first + k * dilation;
        rows[k] = row >= 0 && row < in_h ? x + row * row_bytes : pad;
    }
}

#endif
