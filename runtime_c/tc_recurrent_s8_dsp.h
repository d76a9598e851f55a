/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers with the DSP extension: sums of eight rows at a time, the hidden state in pairs
 * of int16. */
#ifndef TC_RECURRENT_S8_DSP_H
#define TC_RECURRENT_S8_DSP_H

#include "tc_dsp.h"
#include "tc_recurrent.h"

/* w, r: for every eight rows `in_words` (`state_words`) times eight words for tc_dsp_dot_1x8, the taps of r
 * in the order of units in memory. in_words, state_words: in_c / 4 and units / 4 rounded up. rows is a
 * multiple of eight. */
typedef struct {
    tc_recurrent_t cell;
    const int32_t *w, *r;
    int32_t in_words, state_words;
} tc_recurrent_s8_dsp_t;

/* first, second [8]: the sums of rows `row` to `row` + 7. xs: x as tc_dsp_unpack_1 makes it. */
static inline void tc_recurrent_s8_dsp_sums(const tc_recurrent_s8_dsp_t *p, int32_t row, const int32_t *xs,
                                            const int32_t *hidden, int32_t *first, int32_t *second)
{
    static const int32_t none[8] = {0, 0, 0, 0, 0, 0, 0, 0};

    tc_dsp_dot_1x8(xs, p->w + row * p->in_words, p->in_words, p->cell.in_bias + row, first);
    tc_dsp_dot_1x8(hidden, p->r + row * p->state_words, p->state_words, none, second);
}

/* Units 2 * pair and 2 * pair + 1 of what is multiplied; `second` counts where there is such a unit. */
static inline void tc_recurrent_s8_dsp_put(int32_t *hidden, int32_t pair, int32_t first, int32_t second)
{
    hidden[pair] = (int32_t)((uint32_t)first & 0xffffu) | (int32_t)((uint32_t)second << 16);
}

/* What is multiplied first; 0 behind the last unit, and so it stays. */
static inline void tc_recurrent_s8_dsp_begin(const tc_recurrent_s8_dsp_t *layer, const int8_t *state,
                                             int32_t *hidden)
{
    const tc_recurrent_t *p = &layer->cell;
    for (int32_t pair = 0; pair < 2 * layer->state_words; pair++) {
        int32_t both[2] = {0, 0};
        for (int32_t k = 0; k < 2 && 2 * pair + k < p->units; k++) {
            const int32_t from = tc_recurrent_begin(state, 2 * pair + k, p->hidden_factor, p->hidden_zero);
            both[k] = tc_recurrent_narrow(from, p->begin_down);
        }
        tc_recurrent_s8_dsp_put(hidden, pair, both[0], both[1]);
    }
}

/* All steps of an LSTM, from cell and hidden on, which are those after the last step then. */
static inline void tc_lstm_loop_s8_dsp_steps(const tc_recurrent_s8_dsp_t *layer, const int8_t *x, int8_t *y,
                                             int32_t *q, int32_t *cell, int32_t *hidden)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *xs = cell + p->units;

    for (int32_t step = 0; step < p->steps; step++) {
        int8_t *row_y = y + (p->y_first + step * p->y_step);
        tc_dsp_unpack_1(x + (p->x_first + step * p->x_step), p->in_c, xs);
        for (int32_t row = 0; row < p->rows; row += 8) {
            int32_t first[8], second[8];
            tc_recurrent_s8_dsp_sums(layer, row, xs, hidden, first, second);
            for (int32_t k = 0; k < 8; k++) {
                q[row + k] = tc_recurrent_sum(p, row + k, first[k], second[k]);
            }
        }
        for (int32_t u = 0; u < p->units; u += 2) {
            int32_t both[2] = {0, 0};
            for (int32_t k = 0; k < 2 && u + k < p->units; k++) {
                const int32_t made = tc_lstm_loop_unit(p, q + 4 * (u + k), cell + u + k);
                both[k] = tc_recurrent_narrow(made, p->down);
                row_y[u + k] = tc_recurrent_y(p, made);
            }
            tc_recurrent_s8_dsp_put(hidden, u >> 1, both[0], both[1]);
        }
    }
}

/* All steps of a GRU, from memory and hidden on, which are those after the last step then. */
static inline void tc_gru_loop_s8_dsp_steps(const tc_recurrent_s8_dsp_t *layer, const int8_t *x, int8_t *y,
                                            int32_t *q, int32_t *memory, int32_t *hidden)
{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *seen = q + p->rows, *xs = memory + p->units;

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
