/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers in portable C: sums of four rows at a time. */
#ifndef TC_RECURRENT_S8_H
#define TC_RECURRENT_S8_H

#include "tc_dot4.h"
#include "tc_recurrent.h"

typedef struct {
    tc_recurrent_t cell; /* rows is a multiple of four */
    const int8_t *w;     /* [rows / 4][in_c][4] */
    const int8_t *r;     /* [rows / 4][units][4] */
} tc_recurrent_s8_t;

/* first, second [4]: the sums of rows `row` to `row` + 3. */
static inline void tc_recurrent_s8_sums(const tc_recurrent_s8_t *p, int32_t row, const int8_t *x,
                                        const int32_t *hidden, int32_t *first, int32_t *second)
{
    const int8_t *r = p->r + row * p->cell.units;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;

    for (int32_t k = 0; k < 4; k++) {
        first[k] = p->cell.in_bias[row + k];
    }
    tc_dot4(x, p->w + row * p->cell.in_c, p->cell.in_c, first);
    for (int32_t u = 0; u < p->cell.units; u++, r += 4) {
        const int32_t v = hidden[u];
        sum0 += v * r[0];
        sum1 += v * r[1];
        sum2 += v * r[2];
        sum3 += v * r[3];
    }
    second[0] = sum0;
    second[1] = sum1;
    second[2] = sum2;
    second[3] = sum3;
}

/* What is multiplied first. */
static inline void tc_recurrent_s8_begin(const tc_recurrent_t *p, const int8_t *state, int32_t *hidden)
{
    for (int32_t u = 0; u < p->units; u++) {
        hidden[u] = tc_recurrent_narrow(tc_recurrent_begin(state, u, p->hidden_factor, p->hidden_zero),
                                        p->begin_down);
    }
}

/* All steps of an LSTM, from cell and hidden on, which are those after the last step then. */
static inline void tc_lstm_loop_s8_steps(const tc_recurrent_s8_t *layer, const int8_t *x, int8_t *y,
                                         int32_t *q, int32_t *cell, int32_t *hidden)
{
    const tc_recurrent_t *p = &layer->cell;

    for (int32_t step = 0; step < p->steps; step++) {
        for (int32_t row = 0; row < p->rows; row += 4) {
            int32_t first[4], second[4];
            tc_recurrent_s8_sums(layer, row, x + (p->x_first + step * p->x_step), hidden, first, second);
            for (int32_t k = 0; k < 4; k++) {
                q[row + k] = tc_recurrent_sum(p, row + k, first[k], second[k]);
            }
        }
        for (int32_t u = 0; u < p->units; u++) {
            const int32_t made = tc_lstm_loop_unit(p, q + 4 * u, cell + u);
            hidden[u] = tc_recurrent_narrow(made, p->down);
            y[p->y_first + step * p->y_step + u] = tc_recurrent_y(p, made);
        }
    }
}

/* All steps of a GRU, from memory and hidden on, which are those after the last step then. */
static inline void tc_gru_loop_s8_steps(const tc_recurrent_s8_t *layer, const int8_t *x, int8_t *y,
                                        int32_t *q, int32_t *memory, int32_t *hidden)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *seen = q + p->rows;

    for (int32_t step = 0; step < p->steps; step++) {
        for (int32_t row = 0; row < p->rows; row += 4) {
            int32_t first[4], second[4];
            tc_recurrent_s8_sums(layer, row, x + (p->x_first + step * p->x_step), hidden, first, second);
            tc_gru_loop_rows(p, row, 4, first, second, q, seen);
        }
        for (int32_t u = 0; u < p->units; u++) {
            const int32_t made = tc_gru_loop_unit(p, q + 3 * u, seen[u], memory + u);
            hidden[u] = tc_recurrent_narrow(made, p->down);
            y[p->y_first + step * p->y_step + u] = tc_recurrent_y(p, made);
        }
    }
}

#endif
