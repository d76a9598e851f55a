/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers with the DSP extension: sums of eight rows at a time, the hidden state in pairs of int16. */
#ifndef TC_RECURRENT_S8_DSP_H
#define TC_RECURRENT_S8_DSP_H

#include "tc_dsp.h"
#include "tc_recurrent.h"

/* w, r: for every eight rows `in_words` (`state_words`) times eight words for tc_dsp_dot_1x8, the taps of r in the order of
 * units in memory. in_words, state_words: in_c / 4 and units / 4 rounded up. rows is a multiple of eight. */
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
static inline void tc_recurrent_s8_dsp_begin(const tc_recurrent_s8_dsp_t *layer, const int8_t *state, int32_t *hidden)
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

#endif
