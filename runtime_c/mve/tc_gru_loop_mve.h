/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop.h with Helium (tc_recurrent_mve.h). Same results; scratch as there. */
#ifndef TC_GRU_LOOP_MVE_H
#define TC_GRU_LOOP_MVE_H

#include "tc_recurrent_mve.h"

#if !TC_MVE_ASM
static inline void tc_gru_mve_step(const tc_recurrent_mve_t *layer, int32_t *memory, int16_t *vector,
                                   int16_t *next, void *y, int32_t step)
{
    const int8_t *w = layer->w;
    for (int32_t first = 0; first < layer->cell.units; first += 4) {
        int32_t sums[16], acc[4];
        int16_t factor[4];
        w = tc_recurrent_mve_all_sums(&layer->cell, vector, w, layer->cell.state_at / 8, sums);
        for (int32_t u = first; u < first + 4 && u < layer->cell.units; u++) {
            tc_recurrent_mve_unit(layer->constants + 8 * first, sums, u - first, acc, factor);
            tc_gru_loop_unit(&layer->cell, acc, factor, memory, next, y, step, u);
        }
    }
}
#endif

static void tc_gru_loop_mve(const tc_recurrent_mve_t *layer, const void *x, const void *hidden_before,
                            void *y, int16_t *hidden_after, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *memory = (int32_t *)scratch;

    tc_recurrent_begins(p, hidden_before, memory);
    for (int32_t step = 0; step < p->steps; step++) {
        int16_t *vector = tc_recurrent_vector(p, memory, step);
        int16_t *next = tc_recurrent_vector(p, memory, step + 1) + p->state_at;
        tc_recurrent_mve_input(p, x, step, vector);
#if TC_MVE_ASM
        tc_recurrent_mve_step(layer, memory, vector, next, y, step, p->state_at / 8, tc_recurrent_mve_gru);
#else
        tc_gru_mve_step(layer, memory, vector, next, y, step);
#endif
    }
    tc_gru_loop_keeps(p, memory, hidden_after);
}

#endif
