/* SPDX-License-Identifier: 0BSD */
/* What the functions compute that the compiler writes for single SVDF layers with Helium, in plain C.
 *
 * state [filters][memory]: moved by one number already; the newest of each filter is written here.
 * stream: four words that say where the newest numbers of four filters are; of each four filters four biases
 * and [ceil(in_c / 16)][4][16] features, zeros behind the last; then of each four units four biases and
 * their weights over time [units][rank][memory], in numbers as wide as those of the state, up to a word.
 */
#ifndef TC_SVDF_S8_MVE_H
#define TC_SVDF_S8_MVE_H

#include "tc_mve.h"

#if !TC_MVE_ASM

typedef struct {
    int32_t in_c, filters, rank, memory;
    int32_t in_mult, in_shift; /* to the scale of the state */
    int32_t mult, shift;
    int32_t y_zero, y_min, y_max;
} tc_mve_svdf_t;

/* The sum of filter f over x, scaled. */
static inline int32_t tc_mve_svdf_newest(const tc_mve_svdf_t *p, const int32_t *stream, const int8_t *x,
                                         int32_t f)
{
    const int32_t *four = stream + 4 + f / 4 * (4 + 16 * ((p->in_c + 15) / 16));
    const int8_t *w = (const int8_t *)(four + 4) + f % 4 * 16;
    int32_t sum = four[f % 4];
    for (int32_t i = 0; i < p->in_c; i++) {
        sum += x[i] * w[i / 16 * 64 + i % 16];
    }
    return tc_requantize_double(sum, p->in_mult, p->in_shift);
}

/* The biases of the four units of unit u; the weights of `bytes` each are behind them. */
static inline const int32_t *tc_mve_svdf_bias(const tc_mve_svdf_t *p, const int32_t *stream, int32_t u,
                                              int32_t bytes)
{
    const int32_t fours = (p->filters + 3) / 4, taps = p->rank * p->memory;
    const int32_t *units = stream + 4 + fours * (4 + 16 * ((p->in_c + 15) / 16));
    return units + u / 4 * (4 + taps * bytes);
}

static inline int8_t tc_mve_svdf_output(const tc_mve_svdf_t *p, uint32_t sum)
{
    const int32_t q = tc_requantize_double((int32_t)sum, p->mult, p->shift) + p->y_zero;
    return (int8_t)tc_clamp(q, p->y_min, p->y_max);
}

/* For numbers of type `number`, of which `least` and `most` are the limits. */
#define TC_MVE_SVDF(name, number, least, most)                                                           \
    static TC_UNUSED void name(const tc_mve_svdf_t *p, const int32_t *stream, const int8_t *x,           \
                               number *state, int8_t *y)                                                 \
    {                                                                                                    \
        const int32_t taps = p->rank * p->memory;                                                        \
        for (int32_t f = 0; f < p->filters; f++) {                                                       \
            const int32_t newest = tc_mve_svdf_newest(p, stream, x, f);                                  \
            state[(f + 1) * p->memory - 1] = (number)tc_clamp(newest, least, most);                      \
        }                                                                                                \
        for (int32_t u = 0; u < p->filters / p->rank; u++) {                                             \
            const int32_t *bias = tc_mve_svdf_bias(p, stream, u, (int32_t)sizeof(number));               \
            const number *times = (const number *)(bias + 4) + u % 4 * taps;                             \
            uint32_t sum = (uint32_t)bias[u % 4];                                                        \
            for (int32_t m = 0; m < taps; m++) {                                                         \
                sum += (uint32_t)(state[u * taps + m] * times[m]);                                       \
            }                                                                                            \
            y[u] = tc_mve_svdf_output(p, sum);                                                           \
        }                                                                                                \
    }

TC_MVE_SVDF(tc_mve_svdf_int16, int16_t, INT16_MIN, INT16_MAX)
TC_MVE_SVDF(tc_mve_svdf_int8, int8_t, INT8_MIN, INT8_MAX)

#endif

#endif
