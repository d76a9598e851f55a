/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers in portable C: all rows of a unit at a time, of weights of 8 or 4 bits. */
#ifndef TC_RECURRENT_S8_H
#define TC_RECURRENT_S8_H

#include "tc_recurrent.h"

typedef struct {
    tc_recurrent_t cell;
    const int8_t *w;        /* [units][taps][rows of a unit]; of 4 bits as tc_recurrent_w4.h says */
    const int32_t *bias;    /* [units][4]; of a GRU the last one is that of n over the hidden state */
    const int16_t *factors; /* [units][rows of a unit] */
} tc_recurrent_s8_t;

/* acc [rows] += the products of `taps` taps with weights from w on. */
typedef void tc_recurrent_sums_t(const int16_t *vector, const int8_t *w, int32_t taps, int32_t rows,
                                 int32_t *acc);

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

/* A step of an LSTM with such sums. per_byte: weights, 1 or 2. */
static inline void tc_lstm_s8_step(const tc_recurrent_s8_t *layer, int32_t *cell, const int16_t *vector,
                                   int16_t *next, void *y, int32_t step, int32_t per_byte,
                                   tc_recurrent_sums_t *sums)
{
    const tc_recurrent_t *p = &layer->cell;

    for (int32_t u = 0; u < p->units; u++) {
        const int32_t *bias = layer->bias + 4 * u;
        int32_t acc[4] = {bias[0], bias[1], bias[2], bias[3]};
        sums(vector, layer->w + 4 * u * p->taps / per_byte, p->taps, 4, acc);
        tc_lstm_loop_unit(p, acc, layer->factors + 4 * u, cell, next, y, step, u);
    }
}

/* A step of a GRU with such sums. */
static inline void tc_gru_s8_step(const tc_recurrent_s8_t *layer, int32_t *memory, const int16_t *vector,
                                  int16_t *next, void *y, int32_t step, int32_t per_byte,
                                  tc_recurrent_sums_t *sums)
{
    const tc_recurrent_t *p = &layer->cell;

    for (int32_t u = 0; u < p->units; u++) {
        const int32_t *bias = layer->bias + 4 * u;
        const int8_t *w = layer->w + 3 * u * p->taps / per_byte;
        int32_t acc[4] = {bias[0], bias[1], bias[2], bias[3]};
        sums(vector, w, p->state_at, 3, acc);
        const int32_t over_input = acc[2];
        acc[2] = acc[3];
        sums(vector + p->state_at, w + 3 * p->state_at / per_byte, p->taps - p->state_at, 3, acc);
        acc[3] = acc[2];
        acc[2] = over_input;
        tc_gru_loop_unit(p, acc, layer->factors + 3 * u, memory, next, y, step, u);
    }
}

#endif
