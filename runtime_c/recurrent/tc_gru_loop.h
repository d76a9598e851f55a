/* SPDX-License-Identifier: 0BSD */
/* Gated recurrent units over all steps, the reset gate behind the product (tc_recurrent.h).
 *
 * x [steps][in_c]; hidden_before [units], or null for zeros; y [steps][units], or [units] of the last step
 * with y_step 0; hidden_after [units], or null. y overlaps nothing; the state that is left may lie where the
 * one that was found did. scratch: int32 memory [units], int16 two vectors [taps].
 */
#ifndef TC_GRU_LOOP_H
#define TC_GRU_LOOP_H

#include "tc_recurrent_s8.h"

static void tc_gru_loop(const tc_recurrent_s8_t *layer, const void *x, const void *hidden_before, void *y,
                        int16_t *hidden_after, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *memory = (int32_t *)scratch;

    tc_recurrent_begins(p, hidden_before, memory);
    for (int32_t step = 0; step < p->steps; step++) {
        int16_t *vector = tc_recurrent_vector(p, memory, step);
        int16_t *next = tc_recurrent_vector(p, memory, step + 1) + p->state_at;
        tc_recurrent_input(p, x, step, vector);
        for (int32_t u = 0; u < p->units; u++) {
            const int32_t *bias = layer->bias + 4 * u;
            const int8_t *w = layer->w + 3 * u * p->taps;
            int32_t acc[4] = {bias[0], bias[1], bias[2], bias[3]};
            tc_recurrent_s8_sums(vector, w, p->state_at, 3, acc);
            const int32_t over_input = acc[2];
            acc[2] = acc[3];
            tc_recurrent_s8_sums(vector + p->state_at, w + 3 * p->state_at, p->taps - p->state_at, 3, acc);
            acc[3] = acc[2];
            acc[2] = over_input;
            tc_gru_loop_unit(p, acc, layer->factors + 3 * u, memory, next, y, step, u);
        }
    }
    tc_gru_loop_keeps(p, memory, hidden_after);
}

#endif
