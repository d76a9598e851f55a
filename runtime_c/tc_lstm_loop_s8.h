/* SPDX-License-Identifier: 0BSD */
/* Long short-term memory over all steps: int8 x and y, a cell of 32 bits and a hidden state of up to 16
 * (tc_recurrent.h).
 *
 * x [steps][in_c]; hidden_before, cell_before [units] int8, or null for zeros; y [steps][units], or [units]
 * of the last step with y_step 0. y overlaps nothing. scratch: int32, q [rows], cell [units], hidden [units].
 */
#ifndef TC_LSTM_LOOP_S8_H
#define TC_LSTM_LOOP_S8_H

#include "tc_recurrent_s8.h"

static void tc_lstm_loop_s8(const tc_recurrent_s8_t *layer, const int8_t *x, const int8_t *hidden_before,
                            const int8_t *cell_before, int8_t *y, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *cell = q + p->rows, *hidden = cell + p->units;

    tc_recurrent_s8_begin(p, hidden_before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        cell[u] = tc_recurrent_begin(cell_before, u, p->cell_factor, p->cell_zero);
    }
    tc_lstm_loop_s8_steps(layer, x, y, q, cell, hidden);
}

#endif
