/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers on cores with the DSP extension: what the functions in assembly compute, in C for
 * other machines.
 *
 * stream, for each unit from the last one on: the values that the accumulators begin with; the weights in the
 * order of use; the factors, two in a word, of an LSTM before the last 4 words of weights where taps is a
 * multiple of 8, before the last 2 where 6 taps are left. Two taps of two rows A and B lie in a word,
 * 256 * A + B in each half ("A over B", tc_dsp.h): of an LSTM of rows i over f, then g over o; of a GRU of z
 * over r. Of a GRU, words of eight taps, then of four, are followed by those of row n: taps 0, 2, 1, 3 of
 * four.
 *
 * Of 4 bits, accumulators begin times 2^12, and the factors are behind the weights. A half of a word has
 * four weights of a tap, the first one on top: of an LSTM of rows i, f, g, o; of a GRU z and r, and both
 * of two taps further on. Of n the four weights are taps of the row, two apart.
 */
#ifndef TC_RECURRENT_PACKED_H
#define TC_RECURRENT_PACKED_H

#include "tc_recurrent.h"

typedef struct {
    const int32_t *stream; /* first, and the table behind it: the assembly reads both */
    tc_recurrent_t cell;
} tc_recurrent_packed_t;

static inline int32_t tc_recurrent_byte(int32_t word, int32_t k)
{
    return (int8_t)((uint32_t)word >> 8 * k);
}

/* over, under += a word of two rows times two taps. */
static inline void tc_recurrent_pair(int32_t word, const int16_t *v, int32_t *over, int32_t *under)
{
    for (int32_t k = 0; k < 2; k++) {
        const int32_t half = (int16_t)((uint32_t)word >> 16 * k), low = tc_recurrent_byte(word, 2 * k);
        *over += ((half - low) >> 8) * v[k];
        *under += low * v[k];
    }
}

/* Words of weights behind the factors of an LSTM. */
static inline int32_t tc_lstm_packed_behind(int32_t taps)
{
    return taps % 8 == 0 ? 4 : taps % 8 == 6 ? 2 : 0;
}

/* The sums of a unit, whose words begin at w; where those of the next one begin.
 * factors: where its own are. */
typedef const int32_t *tc_recurrent_packed_sums_t(const tc_recurrent_t *p, const int32_t *w,
                                                  const int16_t *vector, int32_t *acc,
                                                  const int32_t **factors);

static inline const int32_t *tc_lstm_packed_sums(const tc_recurrent_t *p, const int32_t *w,
                                                 const int16_t *vector, int32_t *acc, const int32_t **factors)
{
    acc[0] = (w[0] - w[1]) >> 8;
    acc[1] = w[1];
    acc[2] = (w[2] - w[3]) >> 8;
    acc[3] = w[3];
    w += 4;
    *factors = w + p->taps - tc_lstm_packed_behind(p->taps);
    for (int32_t k = 0; k < p->taps; k += 2, w += 2) {
        w += w == *factors ? 2 : 0;
        tc_recurrent_pair(w[0], vector + k, acc, acc + 1);
        tc_recurrent_pair(w[1], vector + k, acc + 2, acc + 3);
    }
    return w + (w == *factors ? 2 : 0);
}

static inline void tc_recurrent_packed_by(const tc_recurrent_packed_t *layer, const void *x, void *y,
                                          int32_t *memory, tc_recurrent_packed_sums_t *sums,
                                          tc_recurrent_unit_t *unit)
{
    const tc_recurrent_t *p = &layer->cell;

    for (int32_t step = 0; step < p->steps; step++) {
        const int32_t *w = layer->stream, *factors;
        int16_t *vector = tc_recurrent_vector(p, memory, step);
        int16_t *next = tc_recurrent_vector(p, memory, step + 1) + p->state_at;
        tc_recurrent_input(p, x, step, vector);
        for (int32_t u = p->units - 1; u >= 0; u--) {
            int32_t acc[4];
            w = sums(p, w, vector, acc, &factors);
            unit(p, acc, (const int16_t *)(const void *)factors, memory, next, y, step, u);
        }
    }
}

static inline void tc_lstm_packed_steps(const tc_recurrent_packed_t *layer, const void *x, void *y,
                                        int32_t *cell)
{
    tc_recurrent_packed_by(layer, x, y, cell, tc_lstm_packed_sums, tc_lstm_loop_unit);
}

/* `taps` taps of z over r, and of n into `single`, from w on; where the next ones are. */
static inline const int32_t *tc_gru_packed_part(const int32_t *w, const int16_t *vector, int32_t taps,
                                                int32_t *acc, int32_t *single)
{
    static const int32_t place[4] = {0, 2, 1, 3};

    for (int32_t k = 0; k < taps;) {
        const int32_t count = taps - k < 8 ? 4 : 8;
        for (int32_t t = 0; t < count; t += 2) {
            tc_recurrent_pair(*w++, vector + k + t, acc, acc + 1);
        }
        for (int32_t t = 0; t < count; t += 4, w++) {
            for (int32_t i = 0; i < 4; i++) {
                *single += tc_recurrent_byte(*w, i) * vector[k + t + place[i]];
            }
        }
        k += count;
    }
    return w;
}

static inline const int32_t *tc_gru_packed_sums(const tc_recurrent_t *p, const int32_t *w,
                                                const int16_t *vector, int32_t *acc, const int32_t **factors)
{
    acc[0] = (w[0] - w[1]) >> 8;
    acc[1] = w[1];
    acc[2] = w[2];
    acc[3] = w[3];
    w = tc_gru_packed_part(w + 4, vector, p->state_at, acc, acc + 2);
    *factors = tc_gru_packed_part(w, vector + p->state_at, p->taps - p->state_at, acc, acc + 3);
    return *factors + 2;
}

static inline void tc_gru_packed_steps(const tc_recurrent_packed_t *layer, const void *x, void *y,
                                       int32_t *memory)
{
    tc_recurrent_packed_by(layer, x, y, memory, tc_gru_packed_sums, tc_gru_loop_unit);
}

/* The weight at a place of half k of a word. place 0: on top. */
static inline int32_t tc_recurrent_w4_at(int32_t word, int32_t place, int32_t k)
{
    return ((int32_t)((uint32_t)word >> (16 * k + 12 - 4 * place) & 15u) ^ 8) - 8;
}

/* The products of two taps with the weights at a place of a word. */
static inline int32_t tc_recurrent_w4_taps(int32_t word, int32_t place, const int16_t *v)
{
    return tc_recurrent_w4_at(word, place, 0) * v[0] + tc_recurrent_w4_at(word, place, 1) * v[1];
}

static inline const int32_t *tc_lstm_packed_w4_sums(const tc_recurrent_t *p, const int32_t *w,
                                                    const int16_t *vector, int32_t *acc,
                                                    const int32_t **factors)
{
    for (int32_t row = 0; row < 4; row++) {
        acc[row] = w[row] >> 12;
        for (int32_t k = 0; k < p->taps; k += 2) {
            acc[row] += tc_recurrent_w4_taps(w[4 + k / 2], row, vector + k);
        }
    }
    *factors = w + 4 + p->taps / 2;
    return *factors + 2;
}

static inline void tc_lstm_packed_w4_steps(const tc_recurrent_packed_t *layer, const void *x, void *y,
                                           int32_t *cell)
{
    tc_recurrent_packed_by(layer, x, y, cell, tc_lstm_packed_w4_sums, tc_lstm_loop_unit);
}

static inline const int32_t *tc_gru_packed_w4_part(const int32_t *w, const int16_t *vector, int32_t taps,
                                                   int32_t *acc, int32_t *single)
{
    for (int32_t k = 0; k < taps;) {
        const int32_t count = taps - k < 8 ? 4 : 8;
        for (int32_t t = 0; t < count; t += 4, w++) {
            for (int32_t place = 0; place < 4; place++) {
                acc[place % 2] += tc_recurrent_w4_taps(*w, place, vector + k + t + place / 2 * 2);
            }
        }
        for (int32_t place = 0; place < count / 2; place++) {
            *single += tc_recurrent_w4_taps(*w, place, vector + k + 2 * place);
        }
        w++;
        k += count;
    }
    return w;
}

static inline const int32_t *tc_gru_packed_w4_sums(const tc_recurrent_t *p, const int32_t *w,
                                                   const int16_t *vector, int32_t *acc,
                                                   const int32_t **factors)
{
    for (int32_t row = 0; row < 4; row++) {
        acc[row] = w[row] >> 12;
    }
    w = tc_gru_packed_w4_part(w + 4, vector, p->state_at, acc, acc + 2);
    *factors = tc_gru_packed_w4_part(w, vector + p->state_at, p->taps - p->state_at, acc, acc + 3);
    return *factors + 2;
}

static inline void tc_gru_packed_w4_steps(const tc_recurrent_packed_t *layer, const void *x, void *y,
                                          int32_t *memory)
{
    tc_recurrent_packed_by(layer, x, y, memory, tc_gru_packed_w4_sums, tc_gru_loop_unit);
}

#endif
