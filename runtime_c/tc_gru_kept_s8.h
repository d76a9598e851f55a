/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop_s8 that goes on where the last run ended: the hidden state int16 [units], before and after,
 * which may be the same bytes (tc_recurrent_kept.h). scratch: as there.
 */
#ifndef TC_GRU_KEPT_S8_H
#define TC_GRU_KEPT_S8_H

#include "tc_recurrent_kept_s8.h"

static void tc_gru_kept_s8(const tc_recurrent_kept_s8_t *both, const int8_t *x, const int16_t *before,
                           int8_t *y, int16_t *after, void *scratch)
{
    const tc_recurrent_t *p = &both->layer.cell;
    const tc_recurrent_kept_t *k = &both->kept;
    int32_t *q = (int32_t *)scratch, *memory = q + p->rows + (p->rows + 2) / 3, *hidden = memory + p->units;

    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = tc_recurrent_kept_hidden(k, before, u);
        hidden[u] = tc_recurrent_narrow(memory[u], p->begin_down);
    }
    tc_gru_loop_s8_steps(&both->layer, x, y, q, memory, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        after[u] = tc_recurrent_keep(memory[u], k->hidden_keep_mult, k->hidden_keep_shift);
    }
}

#endif
