/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers in portable C: all rows of a unit at a time. */
#ifndef TC_RECURRENT_S8_H
#define TC_RECURRENT_S8_H

#include "tc_recurrent.h"

typedef struct {
    tc_recurrent_t cell;
    const int8_t *w;        /* [units][taps][rows of a unit] */
    const int32_t *bias;    /* [units][4]; of a GRU the last one is that of n over the hidden state */
    const int16_t *factors; /* [units][rows of a unit] */
} tc_recurrent_s8_t;

/* acc [rows] += the products of `taps` taps. rows: 3 or 4. */
static inline void tc_recurrent_s8_sums(const int16_t *vector, const int8_t *w, int32_t taps, int32_t rows,
                                        int32_t *acc)
{
    int32_t sum0 = acc[0], sum1 = acc[1], sum2 = acc[2], sum3 = 0;

    for (int32_t k = 0; k < taps; k++, w += rows) {
        const int32_t v = vector[k];
        sum0 += v * w[0];
        sum1 += v * w[1];
        sum2 += v * w[2];
        if (rows == 4) {
            sum3 += v * w[3];
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
