/* SPDX-License-Identifier: 0BSD */
/* A layer that remembers, float32: each filter takes a number from x, and weighs those of the last `memory`
 * runs.
 *
 *   newest[f] = 0, then fma(x[i], w[f][i], acc) for i in order; after[f] = before[f] without its oldest,
 *       and newest[f]
 *   acc = bias[u]; for the `rank` filters f of unit u, and each of their numbers,
 *       oldest first: acc = fma(after[f][m], times[f][m], acc)
 *   y[u] = clip(acc, lo, hi)
 *
 * x [in_c], w [filters][in_c], times, before, after [filters][memory]; after may be before. lo, hi: the bits
 * of floats. No scratch.
 */
#ifndef TC_SVDF_F32_H
#define TC_SVDF_F32_H

#include "tc_float.h"

typedef struct {
    const float *w, *times, *bias;
    int32_t in_c, units, rank, memory;
    int32_t lo, hi;
} tc_svdf_f32_t;

static void tc_svdf_f32(const tc_svdf_f32_t *p, const float *x, const float *before, float *y, float *after)
{
    const float *w = p->w, *times = p->times;

    for (int32_t u = 0; u < p->units; u++) {
        float acc = p->bias[u];
        for (int32_t k = 0; k < p->rank; k++, before += p->memory, after += p->memory, times += p->memory) {
            float newest = 0.0f;
            for (int32_t i = 0; i < p->in_c; i++) {
                newest = tc_fma(x[i], *w++, newest);
            }
            for (int32_t m = 0; m < p->memory; m++) {
                const float held = m + 1 < p->memory ? before[m + 1] : newest;
                after[m] = held;
                acc = tc_fma(held, times[m], acc);
            }
        }
        y[u] = tc_clip(acc, tc_float_of(p->lo), tc_float_of(p->hi));
    }
}

#endif
