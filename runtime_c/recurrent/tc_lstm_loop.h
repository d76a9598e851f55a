/* SPDX-License-Identifier: 0BSD */
/* Long short-term memory over all steps (tc_recurrent.h).
 *
 * x [steps][in_c]; hidden_before, cell_before [units], or null for zeros; y [steps][units], or [units] of
 * the last step with y_step 0; hidden_after, cell_after [units], or null. y overlaps nothing; a state that is
 * left may lie where the one that was found did. scratch: int32 cell [units], int16 two vectors [taps].
 */
#ifndef TC_LSTM_LOOP_H
#define TC_LSTM_LOOP_H

#include "tc_recurrent_s8.h"

static void tc_lstm_loop(const tc_recurrent_s8_t *layer, const void *x, const void *hidden_before,
                         const void *cell_before, void *y, int16_t *hidden_after, int16_t *cell_after,
                         void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *cell = (int32_t *)scratch;

    tc_recurrent_begins(p, hidden_before, cell);
    tc_recurrent_begins_cell(p, cell_before, cell);
    for (int32_t step = 0; step < p->steps; step++) {
        int16_t *vector = tc_recurrent_vector(p, cell, step);
        int16_t *next = tc_recurrent_vector(p, cell, step + 1) + p->state_at;
        tc_recurrent_input(p, x, step, vector);
        for (int32_t u = 0; u < p->units; u++) {
            const int32_t *bias = layer->bias + 4 * u;
            int32_t acc[4] = {bias[0], bias[1], bias[2], bias[3]};
            tc_recurrent_s8_sums(vector, layer->w + 4 * u * p->taps, p->taps, 4, acc);
            tc_lstm_loop_unit(p, acc, layer->factors + 4 * u, cell, next, y, step, u);
        }
    }
    tc_lstm_loop_keeps(p, cell, hidden_after, cell_after);
}

#endif
