/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop_s8 with the DSP extension: the same bytes.
 *
 * scratch: int32, q [rows], seen [rows / 3, rounded up], memory [units], xs [2 * in_words], hidden [2 * state_words].
 */
#ifndef TC_GRU_LOOP_S8_DSP_H
#define TC_GRU_LOOP_S8_DSP_H

#include "tc_recurrent_s8_dsp.h"

static void tc_gru_loop_s8_dsp(const tc_recurrent_s8_dsp_t *layer, const int8_t *x, const int8_t *before,
                               const int8_t *none, int8_t *y, void *scratch)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *q = (int32_t *)scratch, *seen = q + p->rows, *memory = seen + (p->rows + 2) / 3;
    int32_t *xs = memory + p->units, *hidden = xs + 2 * layer->in_words;

    (void)none;
    tc_recurrent_s8_dsp_begin(layer, before, hidden);
    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = tc_recurrent_begin(before, u, p->hidden_factor, p->hidden_zero);
    }
    for (int32_t step = 0; step < p->steps; step++) {
        int8_t *row_y = y + (p->y_first + step * p->y_step);
        tc_dsp_unpack_1(x + (p->x_first + step * p->x_step), p->in_c, xs);
        for (int32_t row = 0; row < p->rows; row += 8) {
            int32_t first[8], second[8];
            tc_recurrent_s8_dsp_sums(layer, row, xs, hidden, first, second);
            tc_gru_loop_rows(p, row, 8, first, second, q, seen);
        }
        for (int32_t u = 0; u < p->units; u += 2) {
            int32_t both[2] = {0, 0};
            for (int32_t k = 0; k < 2 && u + k < p->units; k++) {
                const int32_t made = tc_gru_loop_unit(p, q + 3 * (u + k), seen[u + k], memory + u + k);
                both[k] = tc_recurrent_narrow(made, p->down);
                row_y[u + k] = tc_recurrent_y(p, made);
            }
            tc_recurrent_s8_dsp_put(hidden, u >> 1, both[0], both[1]);
        }
    }
}

#endif
