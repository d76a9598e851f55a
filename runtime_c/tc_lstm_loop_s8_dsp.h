/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_loop_s8 with the DSP extension: the same bytes.
 *
 * scratch: int32, q [rows], cell [units], xs [2 * in_words], hidden [2 * state_words].
 */
#ifndef TC_LSTM_LOOP_S8_DSP_H
#define TC_LSTM_LOOP_S8_DSP_H

#include "tc_recurrent_s8_dsp.h"

static void tc_lstm_loop_s8_dsp(const tc_recurrent_s8_dsp_t *layer, const int8_t *x,
                                const int8_t *hidden_before, const int8_t *cell_before, int8_t *y,
                                void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *cell = q + p->rows, *hidden = cell + p->units + 2 * layer->in_words;

    tc_recurrent_s8_dsp_begin(layer, hidden_before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        cell[u] = tc_recurrent_begin(cell_before, u, p->cell_factor, p->cell_zero);
    }
    tc_lstm_loop_s8_dsp_steps(layer, x, y, q, cell, hidden);
}

#endif
