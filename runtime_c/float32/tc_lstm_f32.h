/* SPDX-License-Identifier: 0BSD */
/* Steps of a long short-term memory, float32.
 *
 * For each step, of gate k and unit u: acc = bias[u][k]; for i, in order: acc = fma(x[i], w[u][i][k], acc);
 * then for h, in order: acc = fma(hidden[h], r[u][h][k], acc). With i, f, o the logistic functions of acc of
 * gates 0, 1 and 3, and g = tanh of gate 2:
 *
 *   cell[u] = fma(f, cell[u], i * g), where clip > 0 clipped to [-clip, clip];
 *       y[step][u] = hidden[u] = o * tanh(cell[u])
 *
 * x [steps][in_c], y [steps][units]. hidden_after, cell_after [units] may be the states of before. scratch:
 * float [units][4].
 */
#ifndef TC_LSTM_F32_H
#define TC_LSTM_F32_H

#include "tc_float_exp.h"

typedef struct {
    const float *w, *r, *bias;
    int32_t steps, units, in_c;
    float clip;
} tc_lstm_f32_t;

static void tc_lstm_f32(const tc_lstm_f32_t *p, const float *x, const float *hidden, const float *cell,
                        float *y, float *hidden_after, float *cell_after, void *scratch)
{
    float *gates = (float *)scratch;

    for (int32_t step = 0; step < p->steps; step++, x += p->in_c) {
        for (int32_t u = 0; u < p->units; u++) {
            for (int32_t k = 0; k < 4; k++) {
                gates[4 * u + k] = p->bias[4 * u + k];
            }
            tc_add_four_f32(gates + 4 * u, x, p->w + 4 * u * p->in_c, p->in_c);
            tc_add_four_f32(gates + 4 * u, step ? hidden_after : hidden, p->r + 4 * u * p->units, p->units);
        }
        for (int32_t u = 0; u < p->units; u++) {
            const float *gate = gates + 4 * u;
            const float added = tc_sigmoid(gate[0]) * tc_tanh(gate[2]);
            float now = tc_fma(tc_sigmoid(gate[1]), (step ? cell_after : cell)[u], added);
            if (p->clip > 0.0f) now = tc_clip(now, -p->clip, p->clip);
            cell_after[u] = now;
            hidden_after[u] = tc_sigmoid(gate[3]) * tc_tanh(now);
            *y++ = hidden_after[u];
        }
    }
}

#endif
