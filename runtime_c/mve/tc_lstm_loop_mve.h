/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_loop.h with Helium (tc_recurrent_mve.h). Same results; scratch as there. */
#ifndef TC_LSTM_LOOP_MVE_H
#define TC_LSTM_LOOP_MVE_H

#include "tc_recurrent_mve.h"

#if !TC_MVE_ASM
static inline void tc_lstm_mve_step(const tc_recurrent_mve_t *layer, int32_t *cell, int16_t *vector,
                                    int16_t *next, void *y, int32_t step)
{
    const int8_t *w = layer->w;
    for (int32_t first = 0; first < layer->cell.units; first += 4) {
        int32_t sums[16], acc[4];
        int16_t factor[4];
        w = tc_recurrent_mve_all_sums(&layer->cell, vector, w, 0, sums);
        for (int32_t u = first; u < first + 4 && u < layer->cell.units; u++) {
            tc_recurrent_mve_unit(layer->constants + 8 * first, sums, u - first, acc, factor);
            tc_lstm_loop_unit(&layer->cell, acc, factor, cell, next, y, step, u);
        }
    }
}
#endif

static void tc_lstm_loop_mve(const tc_recurrent_mve_t *layer, const void *x, const void *hidden_before,
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
        tc_recurrent_mve_input(p, x, step, vector);
#if TC_MVE_ASM
        tc_recurrent_mve_step(layer, cell, vector, next, y, step, 0, tc_recurrent_mve_lstm);
#else
        tc_lstm_mve_step(layer, cell, vector, next, y, step);
#endif
    }
    tc_lstm_loop_keeps(p, cell, hidden_after, cell_after);
}

#endif
