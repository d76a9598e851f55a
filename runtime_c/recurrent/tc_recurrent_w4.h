/* SPDX-License-Identifier: 0BSD */
/* Sums of recurrent layers with weights of 4 bits in portable C.
 *
 * w [units][taps / 2][rows of a unit]: a byte has two taps of a row, the first one in its low half.
 */
#ifndef TC_RECURRENT_W4_H
#define TC_RECURRENT_W4_H

#include "tc_recurrent_s8.h"

/* A byte's two weights times v0 and v1. */
static inline int32_t tc_recurrent_w4_pair(int32_t byte, int32_t v0, int32_t v1)
{
    return v0 * (((byte & 15) ^ 8) - 8) + v1 * (byte >> 4);
}

/* acc [rows] += the products of `taps` taps, an even number. rows: 3 or 4. */
static inline void tc_recurrent_w4_sums(const int16_t *vector, const int8_t *w, int32_t taps, int32_t rows,
                                        int32_t *acc)
{
    int32_t sum0 = acc[0], sum1 = acc[1], sum2 = acc[2], sum3 = 0;

    for (int32_t k = 0; k < taps; k += 2, w += rows) {
        const int32_t v0 = vector[k], v1 = vector[k + 1];
        sum0 += tc_recurrent_w4_pair(w[0], v0, v1);
        sum1 += tc_recurrent_w4_pair(w[1], v0, v1);
        sum2 += tc_recurrent_w4_pair(w[2], v0, v1);
        if (rows == 4) {
            sum3 += tc_recurrent_w4_pair(w[3], v0, v1);
        }
    }
    acc[0] = sum0;
    acc[1] = sum1;
    acc[2] = sum2;
    if (rows == 4) {
        acc[3] += sum3;
    }
}

#endif
