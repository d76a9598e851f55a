/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_loop_s8 that goes on where the last run ended: hidden state and cell int16 [units], before and
 * after, which may be the same bytes (tc_recurrent_kept.h). scratch: as there.
 */
#ifndef TC_LSTM_KEPT_S8_H
#define TC_LSTM_KEPT_S8_H

#include "tc_recurrent_kept_s8.h"

static void tc_lstm_kept_s8(const tc_recurrent_kept_s8_t *both, const int8_t *x, const int16_t *hidden_before,
                            const int16_t *cell_before, int8_t *y, int16_t *hidden_after, int16_t *cell_after,
                            void *scratch)
{
    const tc_recurrent_t *p = &both->layer.cell;
    const tc_recurrent_kept_t *k = &both->kept;
    int32_t *q = (int32_t *)scratch, *cell = q + p->rows, *hidden = cell + p->units;

    for (int32_t u = 0; u < p->units; u++) {
        hidden[u] = tc_recurrent_narrow(tc_recurrent_kept_hidden(k, hidden_before, u), p->begin_down);
        cell[u] = tc_recurrent_kept_cell(k, cell_before, u);
    }
    tc_lstm_loop_s8_steps(&both->layer, x, y, q, cell, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        hidden_after[u] = tc_recurrent_keep(hidden[u], k->hidden_keep_mult, k->hidden_keep_shift);
        cell_after[u] = tc_recurrent_keep(cell[u], k->cell_keep_mult, k->cell_keep_shift);
    }
}

#endif
