/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_loop_w4.h with Helium (tc_recurrent_mve.h). Same results; scratch as there. */
#ifndef TC_LSTM_LOOP_W4_MVE_H
#define TC_LSTM_LOOP_W4_MVE_H

#include "tc_recurrent_mve.h"

static void tc_lstm_loop_w4_mve(const tc_recurrent_mve_t *layer, const void *x, const void *hidden_before,
                                const void *cell_before, void *y, int16_t *hidden_after, int16_t *cell_after,
                                void *scratch)
{
    tc_lstm_loop_mve_by(layer, x, hidden_before, cell_before, y, hidden_after, cell_after, scratch,
                        tc_recurrent_mve_w4_sums);
}

#endif
