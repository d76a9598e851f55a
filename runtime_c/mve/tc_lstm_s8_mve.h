/* SPDX-License-Identifier: 0BSD */
/* What the functions compute that the compiler writes for single LSTM layers with Helium, in plain C.
 *
 * A step is two functions. Sums of four units of one gate are made at a time, 16 taps of each row after each
 * other; what goes into the gates is q [ceil(units / 4)][4 gates][4]. The rest is tc_lstm.h.
 *
 * stream: of each gate {left, multiplier, 1 if the shift goes down, minus how far} for the sums over x, the
 * same for those over the hidden state; then of each four units, of x and then of the hidden state, four
 * biases and [ceil(taps / 16)][4][16] weights, zeros behind the last tap and the last unit.
 * table: [257] logistic(i / 24), Q0.16, the last one twice.
 */
#ifndef TC_LSTM_S8_MVE_H
#define TC_LSTM_S8_MVE_H

#include "tc_lstm.h"
#include "tc_mve.h"

#if !TC_MVE_ASM

/* The sums over n inputs of a unit, the `lane`-th of four, scaled; the stream is that of the four. */
static inline int32_t tc_mve_lstm_sum(const int32_t *scaling, const int32_t *stream, int32_t lane,
                                      const int8_t *x, int32_t n)
{
    const int8_t *w = (const int8_t *)(stream + 4) + 16 * lane;
    int32_t sum = stream[lane];
    for (int32_t i = 0; i < n; i++) {
        sum += x[i] * w[i / 16 * 64 + i % 16];
    }
    return tc_lstm_sat16(tc_requantize(sum, scaling[1], scaling[0] + scaling[3], 2));
}

static TC_UNUSED void tc_mve_lstm_gates(const int32_t *stream, const int8_t *x, const int8_t *hidden,
                                        int16_t *q, int32_t in_c, int32_t units)
{
    const int32_t quads = (units + 3) / 4;
    const int32_t first = 4 + 16 * ((in_c + 15) / 16), second = 4 + 16 * ((units + 15) / 16);

    for (int32_t gate = 0; gate < 4; gate++) {
        const int32_t *scaling = stream;
        stream += 8;
        for (int32_t quad = 0; quad < quads; quad++, stream += first + second) {
            for (int32_t lane = 0; lane < 4; lane++) {
                const int32_t sum = tc_mve_lstm_sum(scaling, stream, lane, x, in_c) +
                    tc_mve_lstm_sum(scaling + 4, stream + first, lane, hidden, units);
                q[16 * quad + 4 * gate + lane] = (int16_t)tc_lstm_sat16(sum);
            }
        }
    }
}

/* p: of one unit. */
static TC_UNUSED void tc_mve_lstm_cells(const tc_lstm_t *p, const int16_t *q, int16_t *cell, int8_t *y,
                                        int32_t units)
{
    for (int32_t u = 0; u < units; u++) {
        int16_t gates[4];
        int8_t hidden;
        for (int32_t gate = 0; gate < 4; gate++) {
            gates[gate] = q[u / 4 * 16 + 4 * gate + u % 4];
        }
        tc_lstm_step(p, gates, y + u, &hidden, cell + u);
    }
}

#endif

#endif
