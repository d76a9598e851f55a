/* SPDX-License-Identifier: 0BSD */
/* Rows that are weighted means of rows of an int8 image, all of them.
 *
 * Row by row as in tc_resample_rows_row_s8.h. No scratch.
 */
#ifndef TC_RESAMPLE_ROWS_S8_H
#define TC_RESAMPLE_ROWS_S8_H

#include "tc_resample_rows_row_s8.h"

static void tc_resample_rows_s8(const tc_resample_rows_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        tc_resample_line(p, 0, x + p->firsts[r] * p->n, r, y + r * p->n);
    }
}

#endif
