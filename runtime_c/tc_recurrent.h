/* SPDX-License-Identifier: 0BSD */
/* What the loops of recurrent layers share: LSTM and GRU, int8 outside, wider inside.
 *
 * Of row n of the weights: sum = (first[n] * factors[n][0] + second[n] * factors[n][1] + 2^(shift - 1)) >>
 * shift, Q3.12, where first is the sum over the input and second the one over the hidden state; the compiler
 * bounds it. sat: to int16.
 *
 *   LSTM, rows i, f, g, o of a unit:  cell = clamp((logistic(sat f) * cell + 2^14 >> 15) + (logistic(sat i)
 *       * tanh(sat g) + 2^9 >> 10))
 *                                     hidden = logistic(sat o) * tanh(sat(cell + 2^7 >> 8)), Q0.30
 *   GRU, rows z, r, n:                n = tanh(sat(first of n + (logistic(sat r) * second of n + 2^14 >>
 *       15))) * 2^5
 *                                     hidden = n + (logistic(sat z) * (hidden - n) + 2^14 >> 15), Q11.20
 *
 * cell and hidden of a GRU are Q11.20. What is multiplied with weights is sat(hidden + 2^(down - 1) >> down);
 * y is hidden, requantized.
 */
#ifndef TC_RECURRENT_H
#define TC_RECURRENT_H

#include "tc_lstm.h"

typedef struct {
    const int32_t *in_bias;  /* [rows] bias - x_zero * sum of the weights */
    const int32_t *factors;  /* [rows] of the sum over the input, of the sum over the hidden state */
    const int32_t *late;     /* [units] added to the second sum of n of a GRU; may be null */
    const uint16_t *table;   /* [256] logistic(i / 24), Q0.16 */
    int32_t steps, units, in_c, rows;
    int32_t shift;           /* in [1, 31] */
    int32_t down, begin_down; /* from hidden, and from a Q11.20, to what is multiplied */
    /* elements: where the first step in time is, and from step to step */
    int32_t x_first, x_step, y_first, y_step;
    int32_t hidden_factor, hidden_zero, cell_factor, cell_zero; /* from int8 to Q11.20 */
    int32_t y_mult, y_shift, y_zero;
} tc_recurrent_t;

/* v >> shift, where that fits int32. */
static inline int32_t tc_recurrent_down(int64_t v, int32_t shift)
{
    return (int32_t)((uint32_t)((uint64_t)v >> 32) << (32 - shift) | (uint32_t)(uint64_t)v >> shift);
}

/* Number `side` of both sums of a row by itself. */
static inline int32_t tc_recurrent_part(const tc_recurrent_t *p, int32_t row, int32_t side, int32_t sum)
{
    const int64_t half = (int64_t)1 << (p->shift - 1);
    return tc_recurrent_down((int64_t)sum * p->factors[2 * row + side] + half, p->shift);
}

/* Both together. */
static inline int32_t tc_recurrent_sum(const tc_recurrent_t *p, int32_t row, int32_t first, int32_t second)
{
    const int64_t half = (int64_t)1 << (p->shift - 1);
    const int64_t sum = (int64_t)first * p->factors[2 * row] + half;
    return tc_recurrent_down((int64_t)second * p->factors[2 * row + 1] + sum, p->shift);
}

static inline int32_t tc_recurrent_share(int32_t share, int32_t v)
{
    return (int32_t)(((int64_t)share * v + (1 << 14)) >> 15);
}

static inline int32_t tc_recurrent_narrow(int32_t v, int32_t down)
{
    return tc_lstm_sat16((v + (1 << (down - 1))) >> down);
}

/* Unit u of a state that begins as int8, as Q11.20; without a state the factor is 0. Asked of the pointer,
 * compilers warn of an arena that begins with the state and is null. */
static inline int32_t tc_recurrent_begin(const int8_t *state, int32_t u, int32_t factor, int32_t zero)
{
    return factor ? (state[u] - zero) * factor : 0;
}

static inline int8_t tc_recurrent_y(const tc_recurrent_t *p, int32_t hidden)
{
    return (int8_t)tc_clamp(tc_requantize_single(hidden, p->y_mult, p->y_shift) + p->y_zero, -128, 127);
}

/* The next hidden state of a unit, from q [4]. */
static inline int32_t tc_lstm_loop_unit(const tc_recurrent_t *p, const int32_t *q, int32_t *cell)
{
    const int32_t in = tc_lstm_logistic(p->table, tc_lstm_sat16(q[0]));
    const int32_t forget = tc_lstm_logistic(p->table, tc_lstm_sat16(q[1]));
    const int32_t candidate = tc_lstm_tanh(p->table, tc_lstm_sat16(q[2]), 0);
    const int32_t out = tc_lstm_logistic(p->table, tc_lstm_sat16(q[3]));
    const int32_t now = tc_recurrent_share(forget, *cell) + ((in * candidate + (1 << 9)) >> 10);
    *cell = tc_clamp(now, -(1 << 30), 1 << 30);
    return out * tc_lstm_tanh(p->table, tc_recurrent_narrow(*cell, 8), 0);
}

/* The next hidden state of a unit, from q [3] and the second sum of n. */
static inline int32_t tc_gru_loop_unit(const tc_recurrent_t *p, const int32_t *q, int32_t seen,
                                       int32_t *hidden)
{
    const int32_t update = tc_lstm_logistic(p->table, tc_lstm_sat16(q[0]));
    const int32_t reset = tc_lstm_logistic(p->table, tc_lstm_sat16(q[1]));
    const int32_t inner = tc_lstm_sat16(q[2] + tc_recurrent_share(reset, seen));
    const int32_t candidate = tc_lstm_tanh(p->table, inner, 0) * 32;
    *hidden = candidate + tc_recurrent_share(update, *hidden - candidate);
    return *hidden;
}

/* `count` rows from `row` on of a GRU: sums into q [rows], the second ones of n into seen [rows / 3, rounded
 * up]. */
static inline void tc_gru_loop_rows(const tc_recurrent_t *p, int32_t row, int32_t count, const int32_t *first,
                                    const int32_t *second, int32_t *q, int32_t *seen)
{
    int32_t unit = row / 3, gate = row - 3 * unit;
    for (int32_t k = 0; k < count; k++, row++) {
        if (gate < 2) {
            q[row] = tc_recurrent_sum(p, row, first[k], second[k]);
            gate++;
        } else {
            const int32_t late = p->late && unit < p->units ? p->late[unit] : 0;
            q[row] = tc_recurrent_part(p, row, 0, first[k]);
            seen[unit++] = tc_recurrent_part(p, row, 1, second[k] + late);
            gate = 0;
        }
    }
}

#endif
