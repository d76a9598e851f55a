/* SPDX-License-Identifier: 0BSD */
/* One row of a tensor whose axes are in another order, any element type.
 *
 * The row is made of one row of x. Where x's rows become `parts` rows of y each, row r is the part r % parts,
 * which begins `part_step` bytes further in x than the part before. Loops as in tc_transpose.h. No scratch.
 */
#ifndef TC_TRANSPOSE_ROW_H
#define TC_TRANSPOSE_ROW_H

#include "tc_transpose.h"

static inline void tc_transpose_row(const tc_transpose_t *p, const void *x, int32_t r, int32_t parts,
                                    int32_t part_step, void *y)
{
    tc_transpose(p, (const uint8_t *)x + r % parts * part_step, y);
}

#endif
