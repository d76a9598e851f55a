/* SPDX-License-Identifier: 0BSD */
/* 3x3 depthwise convolution on RV32IM (tc_rv32.h): what the functions share that the compiler writes for
 * single layers.
 *
 * A channel's column of three taps is read once; registers hold the nine weights, and the sums of the pixels
 * that the column belongs to: `first` of the pixel that it ends, for stride 1 `second` of the next.
 */
#ifndef TC_RV32_DEPTHWISE_H
#define TC_RV32_DEPTHWISE_H

#include "tc_rv32.h"

typedef struct {
    int32_t v0, v1, v2;
} tc_rv32_column_t;

TC_INLINE tc_rv32_column_t tc_rv32_column(int32_t v0, int32_t v1, int32_t v2)
{
    const tc_rv32_column_t column = {v0, v1, v2};
    return column;
}

/* A column times column k of the weights [3][3]. */
TC_INLINE int32_t tc_rv32_taps(tc_rv32_column_t column, const int32_t *w, int32_t k)
{
    return column.v0 * w[k] + column.v1 * w[3 + k] + column.v2 * w[6 + k];
}

/* Nine int8 weights; the next channel's. */
TC_INLINE const int8_t *tc_rv32_weights(const int8_t *from, int32_t *w)
{
    for (int32_t i = 0; i < 9; i++) {
        w[i] = from[i];
    }
    return from + 9;
}

/* Nine int4 weights in five bytes, the first of two in the low half; the next channel's. */
TC_INLINE const int8_t *tc_rv32_weights4(const int8_t *from, int32_t *w)
{
    for (int32_t i = 0; i < 9; i += 2) {
        const int32_t both = from[i / 2];
        w[i] = (int32_t)((uint32_t)both << 28) >> 28;
        if (i < 8) {
            w[i + 1] = both >> 4;
        }
    }
    return from + 5;
}

#endif
