/* SPDX-License-Identifier: 0BSD */
/* What the loops of recurrent layers share: LSTM and GRU, 8 or 16 bits outside, wider inside.
 *
 * A step multiplies one vector of int16, the input scaled and behind it the hidden state, with int8 weights:
 *
 *   vector = ((x * x_mult + x_add) >> x_shift, hidden)
 *   acc[row] = bias[row] + sum of vector * w[row]         below 2^23, as the compiler proves
 *   v = (acc << lift) * factor[row] >> 16                 what goes into a gate
 *
 * gate(v, shift): the chord of logistic in that of 128 places, 1/8 apart, where v >> shift is, in Q15;
 * tanh(x) is 2 * logistic(2 x) - 1, and its rows have twice their factor. Rows i and g of an LSTM, z of a GRU
 * are lifted by 8 and looked up by `over`, the others by `lift` and `under`.
 *
 *   LSTM:  cell = clamp(2 * ((cell * f >> 16) + (i * g + 2^10 >> 10)))
 *          made = o * tanh(cell) + 2^(down - 1), hidden = made >> down
 *   GRU:   n = tanh(v of x + 2 * (r * v of hidden >> 16)), each side with a bias of its own
 *          made = memory = 2 * (((memory - n) * z >> 16) + n / 2) + 1
 *          hidden = sat16((made + 2^(down - 1)) >> down)
 *   y = saturate(((made * y_mult >> 16) + y_add) >> y_shift)
 *
 * Logistic in Q15, tanh in Q14, cell and memory in Q11.20. The states that a layer begins with come to
 * Q11.20, and so do those that it leaves, if they are asked for; null stands for zeros, and for nobody who
 * asks.
 */
#ifndef TC_RECURRENT_H
#define TC_RECURRENT_H

#include "tc_math.h"

typedef struct {
    const int32_t *table;     /* [128] rise of logistic over 1/8 << 16 | logistic, Q15, from -8 on */
    int32_t steps, units, in_c;
    int32_t state_at, taps;   /* where the hidden state begins in the vector, and its length, even */
    int32_t over, lift, under, down, begin_down;
    int32_t x_mult, x_add, x_shift, y_mult, y_add, y_shift;
    int32_t x_wide, y_wide, state_wide; /* 1: int16, 0: int8 */
    /* elements: where the first step in time is, and from step to step */
    int32_t x_first, x_step, y_first, y_step;
    int32_t hidden_mult, hidden_shift, hidden_zero, hidden_most, cell_mult, cell_shift, cell_zero;
    int32_t hidden_keep_mult, hidden_keep_shift, cell_keep_mult, cell_keep_shift;
} tc_recurrent_t;

/* floor(v * half / 2^16), half an int16. */
static inline int32_t tc_recurrent_product(int32_t v, int32_t half)
{
    return (v >> 16) * half + ((int32_t)((uint32_t)v & 0xffffu) * half >> 16);
}

static inline int32_t tc_recurrent_gate(const int32_t *table, int32_t v, int32_t shift)
{
    const int32_t entry = table[tc_clamp(v >> shift, -64, 63) + 64];
    const int32_t between = (int32_t)((uint32_t)(v >> (shift - 13)) & 8191u);
    return (entry & 0x7fff) + (between * (entry >> 16) >> 16);
}

static inline int32_t tc_recurrent_tanh(const int32_t *table, int32_t v, int32_t shift)
{
    return tc_recurrent_gate(table, v, shift) - (1 << 14);
}

static inline int32_t tc_recurrent_read(const void *from, int32_t i, int32_t wide)
{
    return wide ? ((const int16_t *)from)[i] : ((const int8_t *)from)[i];
}

/* Both vectors behind the memory [units]; the step with number `step` reads one and writes its hidden state
 * into the other. */
static inline int16_t *tc_recurrent_vector(const tc_recurrent_t *p, int32_t *memory, int32_t step)
{
    return (int16_t *)(void *)(memory + p->units) + (step & 1) * p->taps;
}

/* The input of a step into its vector. */
static inline void tc_recurrent_input(const tc_recurrent_t *p, const void *x, int32_t step, int16_t *vector)
{
    const int32_t first = p->x_first + step * p->x_step;
    for (int32_t i = 0; i < p->in_c; i++) {
        vector[i] = (int16_t)((tc_recurrent_read(x, first + i, p->x_wide) * p->x_mult + p->x_add) >>
                              p->x_shift);
    }
}

static inline int32_t tc_recurrent_sat16(int32_t v)
{
    return tc_clamp(v, -32768, 32767);
}

static inline int32_t tc_recurrent_begin(const tc_recurrent_t *p, const void *state, int32_t u)
{
    if (!p->hidden_mult) {
        return 0;
    }
    const int32_t v = tc_recurrent_read(state, u, p->state_wide) - p->hidden_zero;
    return tc_clamp(tc_requantize_single(v, p->hidden_mult, p->hidden_shift), -p->hidden_most,
                    p->hidden_most);
}

/* What a step finds: memory and the first vector, with zeros where the vector has no number. */
static inline void tc_recurrent_begins(const tc_recurrent_t *p, const void *hidden, int32_t *memory)
{
    int16_t *vector = tc_recurrent_vector(p, memory, 0);
    for (int32_t k = 0; k < 2 * p->taps; k++) {
        vector[k] = 0;
    }
    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = tc_recurrent_begin(p, hidden, u);
        vector[p->state_at + u] = (int16_t)tc_recurrent_sat16(
            (memory[u] + (1 << (p->begin_down - 1))) >> p->begin_down);
    }
}

/* The cell that an LSTM finds. */
static inline void tc_recurrent_begins_cell(const tc_recurrent_t *p, const void *cell, int32_t *memory)
{
    const int32_t most = 1 << 30;
    for (int32_t u = 0; u < p->units; u++) {
        memory[u] = 0;
        if (p->cell_mult) {
            const int32_t v = tc_recurrent_read(cell, u, p->state_wide) - p->cell_zero;
            memory[u] = tc_clamp(tc_requantize_single(v, p->cell_mult, p->cell_shift), -most, most);
        }
    }
}

static inline int16_t tc_recurrent_keep(int32_t v, int32_t mult, int32_t shift)
{
    return (int16_t)tc_recurrent_sat16(tc_requantize_single(v, mult, shift));
}

/* The states that an LSTM leaves. */
static inline void tc_lstm_loop_keeps(const tc_recurrent_t *p, int32_t *memory, int16_t *hidden,
                                      int16_t *cell)
{
    const int16_t *last = tc_recurrent_vector(p, memory, p->steps) + p->state_at;
    for (int32_t u = 0; hidden && u < p->units; u++) {
        hidden[u] = tc_recurrent_keep(last[u], p->hidden_keep_mult, p->hidden_keep_shift);
        cell[u] = tc_recurrent_keep(memory[u], p->cell_keep_mult, p->cell_keep_shift);
    }
}

/* The state that a GRU leaves. */
static inline void tc_gru_loop_keeps(const tc_recurrent_t *p, const int32_t *memory, int16_t *hidden)
{
    for (int32_t u = 0; hidden && u < p->units; u++) {
        hidden[u] = tc_recurrent_keep(memory[u], p->hidden_keep_mult, p->hidden_keep_shift);
    }
}

static inline void tc_recurrent_put_y(const tc_recurrent_t *p, void *y, int32_t step, int32_t u, int32_t made)
{
    const int32_t v = (tc_recurrent_product(made, p->y_mult) + p->y_add) >> p->y_shift;
    const int32_t at = p->y_first + step * p->y_step + u;
    if (p->y_wide) {
        ((int16_t *)y)[at] = (int16_t)tc_recurrent_sat16(v);
    } else {
        ((int8_t *)y)[at] = (int8_t)tc_clamp(v, -128, 127);
    }
}

/* Of unit u of a step, with its sums: what it remembers, its state and its output. */
typedef void tc_recurrent_unit_t(const tc_recurrent_t *p, const int32_t *acc, const int16_t *factor,
                                 int32_t *memory, int16_t *hidden, void *y, int32_t step, int32_t u);

/* Unit u of an LSTM: its cell, the hidden state for the next step, y. acc: of rows i, f, g, o. */
static inline void tc_lstm_loop_unit(const tc_recurrent_t *p, const int32_t *acc, const int16_t *factor,
                                     int32_t *cell, int16_t *hidden, void *y, int32_t step, int32_t u)
{
    const int32_t up = 1 << p->lift, *t = p->table;
    const int32_t i = tc_recurrent_gate(t, tc_recurrent_product(acc[0] * 256, factor[0]), p->over);
    const int32_t f = tc_recurrent_gate(t, tc_recurrent_product(acc[1] * up, factor[1]), p->under);
    const int32_t g = tc_recurrent_tanh(t, tc_recurrent_product(acc[2] * 256, factor[2]), p->over);
    const int32_t o = tc_recurrent_gate(t, tc_recurrent_product(acc[3] * up, factor[3]), p->under);
    const int32_t half = tc_recurrent_product(cell[u], f) + ((i * g + (1 << 10)) >> 10);
    const int32_t now = half >= 1 << 30 ? INT32_MAX : half < -(1 << 30) ? INT32_MIN : half * 2;
    const int32_t made = o * tc_recurrent_tanh(t, now, 16) + (1 << (p->down - 1));

    cell[u] = now;
    hidden[u] = (int16_t)(made >> p->down);
    tc_recurrent_put_y(p, y, step, u, made);
}

/* Unit u of a GRU. acc: of rows z and r, and of n over the input and over the hidden state. */
static inline void tc_gru_loop_unit(const tc_recurrent_t *p, const int32_t *acc, const int16_t *factor,
                                    int32_t *memory, int16_t *hidden, void *y, int32_t step, int32_t u)
{
    const int32_t up = 1 << p->lift, *t = p->table;
    const int32_t z = tc_recurrent_gate(t, tc_recurrent_product(acc[0] * 256, factor[0]), p->over);
    const int32_t r = tc_recurrent_gate(t, tc_recurrent_product(acc[1] * up, factor[1]), p->under);
    const int32_t seen = tc_recurrent_product(tc_recurrent_product(acc[3] * up, factor[2]), r);
    const int32_t inner = tc_recurrent_product(acc[2] * up, factor[2]) + 2 * seen;
    const int32_t n = tc_recurrent_tanh(t, inner, p->under);
    const int32_t made = 2 * (tc_recurrent_product(memory[u] - n * 64, z) + n * 32) + 1;

    memory[u] = made;
    hidden[u] = (int16_t)tc_recurrent_sat16((made + (1 << (p->down - 1))) >> p->down);
    tc_recurrent_put_y(p, y, step, u, made);
}

#endif
