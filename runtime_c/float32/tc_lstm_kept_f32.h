/* SPDX-License-Identifier: 0BSD */
/* tc_recurrent_f32 of an LSTM that goes on where the last run ended: hidden state and cell [units], before
 * and after, which may be the same bytes; null before stands for zeros. scratch: as there.
 */
#ifndef TC_LSTM_KEPT_F32_H
#define TC_LSTM_KEPT_F32_H

#include "tc_recurrent_f32.h"

static void tc_lstm_kept_f32(const tc_recurrent_f32_t *p, const float *x, const float *hidden_before,
                             const float *cell_before, float *y, float *hidden_after, float *cell_after,
                             void *scratch)
{
    float *sums = (float *)scratch, *hidden = sums + 2 * p->rows, *cell = hidden + p->units;

    tc_recurrent_f32(p, x, hidden_before, cell_before, y, scratch);
    for (int32_t u = 0; u < p->units; u++) {
        hidden_after[u] = hidden[u];
        cell_after[u] = cell[u];
    }
}

#endif
