/* SPDX-License-Identifier: 0BSD */
/* What a recurrent layer keeps from run to run, int16 with zero point 0: read before its loop, written behind
 * it.
 *
 * Read, a state is Q11.20: the hidden state limited to [-1, 1], the cell to [-1024, 1024]. Null stands for
 * zeros.
 */
#ifndef TC_RECURRENT_KEPT_H
#define TC_RECURRENT_KEPT_H

#include "tc_recurrent.h"

typedef struct {
    int32_t hidden_mult, hidden_shift, cell_mult, cell_shift; /* from int16 to Q11.20 */
    /* from what is multiplied (LSTM), from Q11.20 (GRU) */
    int32_t hidden_keep_mult, hidden_keep_shift;
    int32_t cell_keep_mult, cell_keep_shift;                  /* from Q11.20 */
} tc_recurrent_kept_t;

static inline int32_t tc_recurrent_kept_hidden(const tc_recurrent_kept_t *k, const int16_t *state, int32_t u)
{
    const int32_t one = 1 << 20;
    return state ? tc_clamp(tc_requantize_single(state[u], k->hidden_mult, k->hidden_shift), -one, one) : 0;
}

static inline int32_t tc_recurrent_kept_cell(const tc_recurrent_kept_t *k, const int16_t *state, int32_t u)
{
    return state ? tc_clamp(tc_requantize_single(state[u], k->cell_mult, k->cell_shift), -(1 << 30),
                            1 << 30) : 0;
}

static inline int16_t tc_recurrent_keep(int32_t v, int32_t mult, int32_t shift)
{
    return (int16_t)tc_lstm_sat16(tc_requantize_single(v, mult, shift));
}

#endif
