/* SPDX-License-Identifier: 0BSD */
/* Distances of rows x [rows][n] from the rows of a table w [count][n], float32.
 *
 *   y[b][i] = sum over k, in order, of d * d (squared) or |d|, d = x[b][k] - w[i][k]; squares by fma(d, d,
 *       sum)
 *
 * y [rows][count] may not overlap an input. No scratch.
 */
#ifndef TC_DISTANCE_F32_H
#define TC_DISTANCE_F32_H

#include "tc_float.h"

typedef struct {
    int32_t rows, count, n;
    int32_t squared; /* 1: squares, 0: sizes */
} tc_distance_f32_t;

static inline float tc_distance(const tc_distance_f32_t *p, const float *x, const float *w)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < p->n; k++) {
        const float d = x[k] - w[k];
        if (p->squared) {
            sum = tc_fma(d, d, sum);
        } else {
            sum += d < 0.0f ? -d : d;
        }
    }
    return sum;
}

static void tc_distance_f32(const tc_distance_f32_t *p, const float *x, const float *w, float *y)
{
    for (int32_t b = 0; b < p->rows; b++, x += p->n) {
        for (int32_t i = 0; i < p->count; i++) {
            *y++ = tc_distance(p, x, w + i * p->n);
        }
    }
}

#endif
