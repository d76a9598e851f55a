/* SPDX-License-Identifier: 0BSD */
/* LSTM (4 gates: i, f, g, o) and GRU (3: z, r, n) over all steps, float32.
 *
 * Of row n of the weights: first = bias[n] + w x, second = late[n] + r hidden, in order by fma.
 *   LSTM:  cell = fma(sigmoid(f), cell, sigmoid(i) * tanh(g)), hidden = sigmoid(o) * tanh(cell),
 *       of first + second
 *   GRU:   n = tanh(fma(sigmoid(r), second of n, first of n)), hidden = fma(sigmoid(z), hidden - n, n)
 * x [steps][in_c]; hidden_before, cell_before [units], or null for zeros; y [steps][units], or [units] of the
 * last step with y_step 0. y overlaps nothing. scratch: first [rows], second [rows], hidden [units], cell
 * [units].
 */
#ifndef TC_RECURRENT_F32_H
#define TC_RECURRENT_F32_H

#include "tc_float_exp.h"

typedef struct {
    const float *w;    /* [rows / 4][in_c][4] */
    const float *r;    /* [rows / 4][units][4] */
    const float *bias; /* [rows] */
    const float *late; /* [rows]; null for zeros */
    int32_t gates, steps, units, in_c, rows;
    /* elements: where the first step in time is, and from step to step */
    int32_t x_first, x_step, y_first, y_step;
} tc_recurrent_f32_t;

/* sum [rows]: from (null: 0), plus v [n] times the weights. */
static inline void tc_recurrent_sums_f32(const float *v, const float *w, int32_t n, int32_t rows,
                                         const float *from, float *sum)
{
    for (int32_t row = 0; row < rows; row += 4) {
        float sum0 = from ? from[row] : 0.0f, sum1 = from ? from[row + 1] : 0.0f;
        float sum2 = from ? from[row + 2] : 0.0f, sum3 = from ? from[row + 3] : 0.0f;
        for (int32_t k = 0; k < n; k++, w += 4) {
            const float each = v[k];
            sum0 = tc_fma(each, w[0], sum0);
            sum1 = tc_fma(each, w[1], sum1);
            sum2 = tc_fma(each, w[2], sum2);
            sum3 = tc_fma(each, w[3], sum3);
        }
        sum[row] = sum0;
        sum[row + 1] = sum1;
        sum[row + 2] = sum2;
        sum[row + 3] = sum3;
    }
}

static inline float tc_lstm_unit_f32(const float *a, const float *b, float *cell)
{
    const float in = tc_sigmoid(a[0] + b[0]), forget = tc_sigmoid(a[1] + b[1]), out = tc_sigmoid(a[3] + b[3]);
    *cell = tc_fma(forget, *cell, in * tc_tanh(a[2] + b[2]));
    return out * tc_tanh(*cell);
}

static inline float tc_gru_unit_f32(const float *a, const float *b, float hidden)
{
    const float update = tc_sigmoid(a[0] + b[0]), reset = tc_sigmoid(a[1] + b[1]);
    const float candidate = tc_tanh(tc_fma(reset, b[2], a[2]));
    return tc_fma(update, hidden - candidate, candidate);
}

static void tc_recurrent_f32(const tc_recurrent_f32_t *p, const float *x, const float *hidden_before,
                             const float *cell_before, float *y, void *scratch)
{
    float *first = (float *)scratch, *second = first + p->rows, *hidden = second + p->rows,
        *cell = hidden + p->units;

    for (int32_t u = 0; u < p->units; u++) {
        hidden[u] = hidden_before ? hidden_before[u] : 0.0f;
        cell[u] = cell_before ? cell_before[u] : 0.0f;
    }
    for (int32_t step = 0; step < p->steps; step++) {
        float *row_y = y + (p->y_first + step * p->y_step);
        tc_recurrent_sums_f32(x + (p->x_first + step * p->x_step), p->w, p->in_c, p->rows, p->bias, first);
        tc_recurrent_sums_f32(hidden, p->r, p->units, p->rows, p->late, second);
        for (int32_t u = 0; u < p->units; u++) {
            const float *a = first + p->gates * u, *b = second + p->gates * u;
            hidden[u] = p->gates == 4 ? tc_lstm_unit_f32(a, b, cell + u) : tc_gru_unit_f32(a, b, hidden[u]);
            row_y[u] = hidden[u];
        }
    }
}

#endif
