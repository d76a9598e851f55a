/* SPDX-License-Identifier: 0BSD */
/* Long short-term memory: int8 input, output and hidden state, int16 cell; a run goes through `steps` steps.
 *
 *   q[u][k] = sat16(sat16(requantize(in_bias[u][k] + w[u][.][k] x, ...)) +
 *                   sat16(requantize(state_bias[u][k] + r[u][.][k] hidden, ...))), k one of four gates;
 *                       then tc_lstm.h
 *
 * y [steps][units] gets each step's hidden state. hidden may be hidden_before and cell may be cell_before;
 * nothing else overlaps. scratch: 4 * units of int16.
 */
#ifndef TC_LSTM_S8_H
#define TC_LSTM_S8_H

#include "tc_dot4.h"
#include "tc_lstm.h"

typedef struct {
    tc_lstm_t cell;
    const int8_t *w;           /* [units][in_c][4 gates] */
    const int8_t *r;           /* [units][units][4 gates] */
    const int32_t *in_bias;    /* [units][4 gates] bias - x_zero * sum of the weights */
    const int32_t *state_bias; /* [units][4 gates] -hidden_zero * sum of the weights */
} tc_lstm_s8_t;

/* sum[k] = from[k] + v . the weights of gate k. */
static inline void tc_lstm_s8_dot(const int8_t *v, const int8_t *w, int32_t n, const int32_t *from,
                                  int32_t sum[4])
{
    for (int32_t gate = 0; gate < 4; gate++) {
        sum[gate] = from[gate];
    }
    tc_dot4(v, w, n, sum);
}

static void tc_lstm_s8(const tc_lstm_s8_t *p, const int8_t *x, const int8_t *hidden_before,
                       const int16_t *cell_before, int8_t *y, int8_t *hidden, int16_t *cell, void *scratch)
{
    const int32_t units = p->cell.units, in_c = p->cell.in_c;
    int16_t *q = (int16_t *)scratch;

    tc_lstm_begin(&p->cell, hidden_before, cell_before, hidden, cell);
    for (int32_t step = 0; step < p->cell.steps; step++, x += in_c, y += units) {
        for (int32_t u = 0; u < units; u++) {
            int32_t first[4], second[4];
            tc_lstm_s8_dot(x, p->w + 4 * u * in_c, in_c, p->in_bias + 4 * u, first);
            tc_lstm_s8_dot(hidden, p->r + 4 * u * units, units, p->state_bias + 4 * u, second);
            for (int32_t gate = 0; gate < 4; gate++) {
                q[4 * u + gate] = tc_lstm_gate(&p->cell, gate, first[gate], second[gate]);
            }
        }
        tc_lstm_step(&p->cell, q, y, hidden, cell);
    }
}

#endif
