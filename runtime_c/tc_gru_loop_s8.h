/* SPDX-License-Identifier: 0BSD */
/* Gated recurrent units over all steps: int8 x and y, a hidden state of 32 bits, of which up to 16 are
 * multiplied (tc_recurrent.h).
 *
 * x [steps][in_c]; before [units] int8, or null for zeros; none: null. y [steps][units], or [units] of the
 * last step with y_step 0. y overlaps nothing. scratch: int32, q [rows], seen [rows / 3, rounded up], memory
 * [units], hidden [units].
 */
#ifndef TC_GRU_LOOP_S8_H
#define TC_GRU_LOOP_S8_H

#include "tc_recurrent_s8.h"

static void tc_gru_loop_s8(const tc_recurrent_s8_t *layer, const int8_t *x, const int8_t *before,
                           const int8_t *none, int8_t *y, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *memory = q + p->rows + (p->rows + 2) / 3, *hidden = memory + p->units;

    (void)none;
    tc_recurrent_s8_begin(p, before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = tc_recurrent_begin(before, u, p->hidden_factor, p->hidden_zero);
    }
    tc_gru_loop_s8_steps(layer, x, y, q, memory, hidden);
}

#endif
