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
    tc_lstm_loop_by(layer, x, hidden_before, cell_before, y, hidden_after, cell_after, scratch, 1,
                    tc_recurrent_s8_sums);
}

#endif
