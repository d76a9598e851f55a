/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_kept_s8 with the DSP extension: the same bytes. scratch: as tc_lstm_loop_s8_dsp has it. */
#ifndef TC_LSTM_KEPT_S8_DSP_H
#define TC_LSTM_KEPT_S8_DSP_H

#include "tc_recurrent_kept_s8_dsp.h"

static void tc_lstm_kept_s8_dsp(const tc_recurrent_kept_s8_dsp_t *both, const int8_t *x,
                                const int16_t *hidden_before, const int16_t *cell_before, int8_t *y,
                                int16_t *hidden_after, int16_t *cell_after, void *scratch)
{
    const tc_recurrent_t *p = &both->layer.cell;
    const tc_recurrent_kept_t *k = &both->kept;
    int32_t *q = (int32_t *)scratch, *cell = q + p->rows,
        *hidden = cell + p->units + 2 * both->layer.in_words;

    for (int32_t pair = 0; pair < 2 * both->layer.state_words; pair++) {
        int32_t halves[2] = {0, 0};
        for (int32_t h = 0; h < 2 && 2 * pair + h < p->units; h++) {
            halves[h] = tc_recurrent_narrow(tc_recurrent_kept_hidden(k, hidden_before, 2 * pair + h),
                                            p->begin_down);
            cell[2 * pair + h] = tc_recurrent_kept_cell(k, cell_before, 2 * pair + h);
        }
        tc_recurrent_s8_dsp_put(hidden, pair, halves[0], halves[1]);
    }
    tc_lstm_loop_s8_dsp_steps(&both->layer, x, y, q, cell, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t made = (int16_t)((uint32_t)hidden[u >> 1] >> 16 * (u & 1));
        hidden_after[u] = tc_recurrent_keep(made, k->hidden_keep_mult, k->hidden_keep_shift);
        cell_after[u] = tc_recurrent_keep(cell[u], k->cell_keep_mult, k->cell_keep_shift);
    }
}

#endif
