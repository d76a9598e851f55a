/* SPDX-License-Identifier: 0BSD */
/* A band of rows as one sequence of pixels, three of which are made at a time: kernels that share work among
 * three pixels lose none of it where a row is no multiple of three.
 */
#ifndef TC_BAND_H
#define TC_BAND_H

#include "tc_math.h"

typedef struct {
    int32_t row, column; /* of the next pixel */
} tc_band_t;

/* Of rows y that have one pointer the last counts: the row from `row` on that does. */
static inline int32_t tc_band_row(int8_t *const *y, int32_t rows, int32_t row)
{
    while (row + 1 < rows && y[row] == y[row + 1]) {
        row++;
    }
    return row;
}

static inline tc_band_t tc_band_begin(int8_t *const *y, int32_t rows)
{
    const tc_band_t at = {tc_band_row(y, rows, 0), 0};
    return at;
}

/* Pointers to the next pixels, `width` in a row; how many there are, 1 to 3. The first stands for those that
 * are missing. */
static inline int32_t tc_band_next(tc_band_t *at, const int8_t *const *x, int8_t *const *y, int32_t rows,
                                   int32_t width, int32_t in_c, int32_t out_c, const int8_t **from,
                                   int8_t **to)
{
    int32_t n = 0;
    for (; n < 3 && at->row < rows; n++) {
        from[n] = x[at->row] + at->column * in_c;
        to[n] = y[at->row] + at->column * out_c;
        if (++at->column == width) {
            at->column = 0;
            at->row = tc_band_row(y, rows, at->row + 1);
        }
    }
    for (int32_t i = n; i < 3; i++) {
        from[i] = from[0];
    }
    return n;
}

/* held [n][out_c] to where its pixels belong. */
static inline void tc_band_spread(const int8_t *held, int32_t out_c, int32_t n, int8_t *const *to)
{
    for (int32_t i = 0; i < n; i++) {
        for (int32_t o = 0; o < out_c; o++) {
            to[i][o] = *held++;
        }
    }
}

#endif
