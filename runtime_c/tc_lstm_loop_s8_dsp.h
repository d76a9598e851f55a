/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_loop_s8 with the DSP extension: the same bytes.
 *
 * scratch: int32, q [rows], cell [units], xs [2 * in_words], hidden [2 * state_words].
 */
#ifndef TC_LSTM_LOOP_S8_DSP_H
#define TC_LSTM_LOOP_S8_DSP_H

#include "tc_recurrent_s8_dsp.h"

static void tc_lstm_loop_s8_dsp(const tc_recurrent_s8_dsp_t *layer, const int8_t *x, const int8_t *hidden_before,
                                const int8_t *cell_before, int8_t *y, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *cell = q + p->rows, *xs = cell + p->units, *hidden = xs + 2 * layer->in_words;

    tc_recurrent_s8_dsp_begin(layer, hidden_before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        cell[u] = tc_recurrent_begin(cell_before, u, p->cell_factor, p->cell_zero);
    }
    for (int32_t step = 0; step < p->steps; step++) {
        int8_t *row_y = y + (p->y_first + step * p->y_step);
        tc_dsp_unpack_1(x + (p->x_first + step * p->x_step), p->in_c, xs);
        for (int32_t row = 0; row < p->rows; row += 8) {
            int32_t first[8], second[8];
            tc_recurrent_s8_dsp_sums(layer, row, xs, hidden, first, second);
            for (int32_t k = 0; k < 8; k++) {
                q[row + k] = tc_recurrent_sum(p, row + k, first[k], second[k]);
            }
        }
        for (int32_t u = 0; u < p->units; u += 2) {
            int32_t both[2] = {0, 0};
            for (int32_t k = 0; k < 2 && u + k < p->units; k++) {
                const int32_t made = tc_lstm_loop_unit(p, q + 4 * (u + k), cell + u + k);
                both[k] = tc_recurrent_narrow(made, p->down);
                row_y[u + k] = tc_recurrent_y(p, made);
            }
            tc_recurrent_s8_dsp_put(hidden, u >> 1, both[0], both[1]);
        }
    }
}

#endif
