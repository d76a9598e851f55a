/* SPDX-License-Identifier: 0BSD */
/* What the kernels of the long short-term memory share: the gates, and the step of the cell.
 *
 *   i, f, o = logistic(q), g = tanh(q)                      Q3.12 in, Q0.15 out, gates in the order i, f,
 *       g, o
 *   cell = clamp(sat16(requantize(f * cell, forget)) + sat16(requantize(i * g, add)), of the clip or int16)
 *   hidden = clamp(requantize(o * tanh(cell), out) + hidden_zero, -128, 127)
 *
 * The bits are those of TensorFlow Lite Micro's reference kernel.
 */
#ifndef TC_LSTM_H
#define TC_LSTM_H

#include "tc_logistic.h"

typedef struct {
    const int32_t *scaling; /* [4] multiplier and shift of w x, multiplier and shift of r hidden */
    const uint16_t *table;  /* [256] logistic(i / 24), Q0.16 */
    int32_t steps, units, in_c;
    int32_t left; /* bits from the cell's scale up to Q3.12, negative: down */
    int32_t cell_min, cell_max; /* of the clip, which is symmetric; of int16 where there is none */
    int32_t hidden_zero, rounds;
    int32_t forget_mult, forget_shift, add_mult, add_shift, out_mult, out_shift;
} tc_lstm_t;

static inline int32_t tc_lstm_sat16(int32_t v)
{
    return tc_clamp(v, -32768, 32767);
}

static inline int32_t tc_lstm_logistic(const uint16_t *table, int32_t q)
{
    return tc_logistic_at(table, 3 * q);
}

static inline int32_t tc_lstm_tanh(const uint16_t *table, int32_t q, int32_t left)
{
    return tc_tanh_at(table, left >= 0 ? 3 * q * (1 << left) : (3 * q + (1 << (-left - 1))) >> -left);
}

/* What goes into a gate, from the sums over the input and over the hidden state. */
static inline int16_t tc_lstm_gate(const tc_lstm_t *p, int32_t gate, int32_t first, int32_t second)
{
    const int32_t *scaling = p->scaling + 4 * gate;
    const int32_t sum = tc_lstm_sat16(tc_requantize(first, scaling[0], scaling[1], p->rounds)) +
                        tc_lstm_sat16(tc_requantize(second, scaling[2], scaling[3], p->rounds));
    return (int16_t)tc_lstm_sat16(sum);
}

/* The states of before where those of after are to be. */
static inline void tc_lstm_begin(const tc_lstm_t *p, const int8_t *hidden_before, const int16_t *cell_before,
                                 int8_t *hidden, int16_t *cell)
{
    for (int32_t u = 0; u < p->units; u++) {
        hidden[u] = hidden_before[u];
        cell[u] = cell_before[u];
    }
}

/* New states and outputs from q [units][4 gates]. */
static inline void tc_lstm_step(const tc_lstm_t *p, const int16_t *q, int8_t *y, int8_t *hidden,
                                int16_t *cell)
{
    for (int32_t u = 0; u < p->units; u++, q += 4) {
        const int32_t in = tc_lstm_logistic(p->table, q[0]);
        const int32_t forget = tc_lstm_logistic(p->table, q[1]);
        const int32_t candidate = tc_lstm_tanh(p->table, q[2], 0);
        const int32_t out = tc_lstm_logistic(p->table, q[3]);
        const int32_t kept = tc_requantize(forget * cell[u], p->forget_mult, p->forget_shift, p->rounds);
        const int32_t added = tc_requantize(in * candidate, p->add_mult, p->add_shift, p->rounds);
        const int32_t now = tc_lstm_sat16(tc_lstm_sat16(kept) + tc_lstm_sat16(added));
        cell[u] = (int16_t)tc_clamp(now, p->cell_min, p->cell_max);
        const int32_t shown = out * tc_lstm_tanh(p->table, cell[u], p->left);
        const int32_t made = tc_requantize(shown, p->out_mult, p->out_shift, p->rounds) + p->hidden_zero;
        hidden[u] = (int8_t)tc_clamp(made, -128, 127);
        y[u] = hidden[u];
    }
}

#endif
