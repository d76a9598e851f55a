/* SPDX-License-Identifier: 0BSD */
/* SVDF: a layer with a memory of its last inputs, int8 in and out, int8 numbers in its state.
 *
 *   after[f][m] = before[f][m + 1], after[f][memory - 1] =
 *       clamp(requantize(feature_bias[f] + sum over c of x[c] * feature f at c, in_mult, in_shift),
 *           of int8_t) + state_zero, wrapped to int8_t
 *   y[u] = clamp(requantize(bias[u] + sum over the rank filters f of unit u, and m,
 *       of after[f][m] * times[f][m],
 *                           mult, shift) + y_zero, y_min, y_max)
 *
 * The features of four filters lie side by side, so that they share the loads of x. The second sum wraps
 * where it leaves int32. in_c, memory, rank >= 1. after may be before; nothing else overlaps. No scratch.
 * Twin: tc_svdf_s8.
 */
#ifndef TC_SVDF_S8_S8_H
#define TC_SVDF_S8_S8_H

#include "tc_svdf.h"

typedef struct {
    const int8_t *features;      /* [ceil(filters / 4)][in_c][4], 0 beyond the last filter */
    const int8_t *times;         /* [filters][memory] */
    const int32_t *feature_bias; /* [4 * ceil(filters / 4)] -x_zero * sum of the filter's features */
    const int32_t *bias;         /* [filters / rank] less state_zero * sum of the unit's times */
    int32_t filters, rank, memory, in_c;
    int32_t in_mult, in_shift; /* to the scale of the state */
    int32_t mult, shift, rounds;
    int32_t y_zero, y_min, y_max;
    int32_t state_zero;
} tc_svdf_s8_s8_t;

/* The filter's state moved by one, with `newest` behind it, and `sum` plus its product with `times`. */
static inline uint32_t tc_svdf_s8_s8_times(const int8_t *before, const int8_t *times, int32_t memory,
                                           int32_t newest, int8_t *after, uint32_t sum)
{
    for (int32_t m = 1; m < memory; m++) {
        const int32_t older = *++before;
        *after++ = (int8_t)older;
        sum += (uint32_t)(older * *times++);
    }
    *after = (int8_t)newest;
    return sum + (uint32_t)(newest * *times);
}

static void tc_svdf_s8_s8(const tc_svdf_s8_s8_t *p, const int8_t *x, const int8_t *before, int8_t *y,
                          int8_t *after)
{
    const int32_t memory = p->memory;
    const int8_t *times = p->times;
    const int32_t *bias = p->bias;
    uint32_t sum = 0;
    int32_t newest[4], left = 0; /* filters that the unit still needs */

    for (int32_t f = 0; f < p->filters; f++, before += memory, after += memory, times += memory) {
        if (f % 4 == 0) {
            for (int32_t k = 0; k < 4; k++) {
                newest[k] = p->feature_bias[f + k];
            }
            tc_dot4(x, p->features + f * p->in_c, p->in_c, newest);
        }
        if (left == 0) {
            left = p->rank;
            sum = (uint32_t)*bias++;
        }
        const int32_t scaled = tc_requantize(newest[f % 4], p->in_mult, p->in_shift, p->rounds);
        const int32_t now = (int8_t)(tc_clamp(scaled, INT8_MIN, INT8_MAX) + p->state_zero);
        sum = tc_svdf_s8_s8_times(before, times, memory, now, after, sum);
        if (--left == 0) {
            const int32_t q = tc_requantize((int32_t)sum, p->mult, p->shift, p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(q, p->y_min, p->y_max);
        }
    }
}

#endif
