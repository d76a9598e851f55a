/* SPDX-License-Identifier: 0BSD */
/* tc_lstm_s8 with the DSP extension: the same bytes.
 *
 * w, r: of the rows [units][4 gates], 0 up to a multiple of eight, for every eight rows `in_words`
 * (`state_words`) times eight words for tc_dsp_dot_1x8 (tc_dsp.h), whose sums the compiler bounds. in_words,
 * state_words: in_c / 4 and units / 4 rounded up. in_bias, state_bias [rows]. y, hidden and cell as there.
 * scratch: 8 * in_words + 8 * state_words + 2 * rows bytes, aligned to 4.
 */
#ifndef TC_LSTM_S8_DSP_H
#define TC_LSTM_S8_DSP_H

#include "tc_dsp.h"
#include "tc_lstm.h"

typedef struct {
    tc_lstm_t cell;
    const int32_t *w, *r;
    const int32_t *in_bias, *state_bias;
    int32_t rows, in_words, state_words;
} tc_lstm_s8_dsp_t;

static void tc_lstm_s8_dsp(const tc_lstm_s8_dsp_t *p, const int8_t *x, const int8_t *hidden_before,
                           const int16_t *cell_before, int8_t *y, int8_t *hidden, int16_t *cell,
                           void *scratch)
{
    int32_t *xs = (int32_t *)scratch;
    int32_t *hs = xs + 2 * p->in_words;
    int16_t *q = (int16_t *)(hs + 2 * p->state_words);

    tc_lstm_begin(&p->cell, hidden_before, cell_before, hidden, cell);
    for (int32_t step = 0; step < p->cell.steps; step++, x += p->cell.in_c, y += p->cell.units) {
        tc_dsp_unpack_1(x, p->cell.in_c, xs);
        tc_dsp_unpack_1(hidden, p->cell.units, hs);
        for (int32_t row = 0; row < p->rows; row += 8) {
            int32_t first[8], second[8];
            tc_dsp_dot_1x8(xs, p->w + row * p->in_words, p->in_words, p->in_bias + row, first);
            tc_dsp_dot_1x8(hs, p->r + row * p->state_words, p->state_words, p->state_bias + row, second);
            for (int32_t k = 0; k < 8; k++) {
                q[row + k] = tc_lstm_gate(&p->cell, k & 3, first[k], second[k]);
            }
        }
        tc_lstm_step(&p->cell, q, y, hidden, cell);
    }
}

#endif
