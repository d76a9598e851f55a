/* SPDX-License-Identifier: 0BSD */
/* tc_gru_kept_s8 with the DSP extension: the same bytes. scratch: as tc_gru_loop_s8_dsp has it. */
#ifndef TC_GRU_KEPT_S8_DSP_H
#define TC_GRU_KEPT_S8_DSP_H

#include "tc_recurrent_kept_s8_dsp.h"

static void tc_gru_kept_s8_dsp(const tc_recurrent_kept_s8_dsp_t *both, const int8_t *x, const int16_t *before,
                               int8_t *y, int16_t *after, void *scratch)
{
    const tc_recurrent_t *p = &both->layer.cell;
    const tc_recurrent_kept_t *k = &both->kept;
    int32_t *q = (int32_t *)scratch, *memory = q + p->rows + (p->rows + 2) / 3;
    int32_t *hidden = memory + p->units + 2 * both->layer.in_words;

    for (int32_t pair = 0; pair < 2 * both->layer.state_words; pair++) {
        int32_t halves[2] = {0, 0};
        for (int32_t h = 0; h < 2 && 2 * pair + h < p->units; h++) {
            memory[2 * pair + h] = tc_recurrent_kept_hidden(k, before, 2 * pair + h);
            halves[h] = tc_recurrent_narrow(memory[2 * pair + h], p->begin_down);
        }
        tc_recurrent_s8_dsp_put(hidden, pair, halves[0], halves[1]);
    }
    tc_gru_loop_s8_dsp_steps(&both->layer, x, y, q, memory, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        after[u] = tc_recurrent_keep(memory[u], k->hidden_keep_mult, k->hidden_keep_shift);
    }
}

#endif
