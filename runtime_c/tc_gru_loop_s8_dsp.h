/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop_s8 with the DSP extension: the same bytes.
 *
 * scratch: int32, q [rows], seen [rows / 3, rounded up], memory [units], xs [2 * in_words], hidden [2 *
 * state_words].
 */
#ifndef TC_GRU_LOOP_S8_DSP_H
#define TC_GRU_LOOP_S8_DSP_H

#include "tc_recurrent_s8_dsp.h"

static void tc_gru_loop_s8_dsp(const tc_recurrent_s8_dsp_t *layer, const int8_t *x, const int8_t *before,
                               const int8_t *none, int8_t *y, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *memory = q + p->rows + (p->rows + 2) / 3;
    int32_t *hidden = memory + p->units + 2 * layer->in_words;

    (void)none;
    tc_recurrent_s8_dsp_begin(layer, before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = tc_recurrent_begin(before, u, p->hidden_factor, p->hidden_zero);
    }
    tc_gru_loop_s8_dsp_steps(layer, x, y, q, memory, hidden);
}

#endif
