/* SPDX-License-Identifier: 0BSD */
/* Probabilities y [classes] from the sums x by which a support vector machine decides each pair of classes,
 * float32.
 *
 * x, a, b [classes * (classes - 1) / 2]: pairs (0,1), (0,2) .. (1,2) .. The first of a pair has the
 * probability 1 / (1 + e^(a x + b)), kept 10^-7 away from 0 and 1. y agree best with all of them: algorithm 2
 * of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling" (2004), at
 * most 100 turns, until no condition is as far as `stop` from the others. Scratch: classes * (classes + 1)
 * floats. y may not overlap an input.
 */
#ifndef TC_PAIR_COUPLING_F32_H
#define TC_PAIR_COUPLING_F32_H

#include "tc_float_exp.h"

typedef struct {
    int32_t classes;
    float stop;
} tc_pair_coupling_f32_t;

/* The probability of the first of a pair. */
static inline float tc_coupling_first(float x, float a, float b)
{
    const float first = tc_sigmoid(-tc_fma(a, x, b));
    return first <= 1e-7f ? 1e-7f : first >= 0.9999999f ? 0.9999999f : first;
}

/* q [n][n]: the matrix of the quadratic form that the probabilities make least. */
static void tc_coupling_products(int32_t n, const float *x, const float *a, const float *b, float *q)
{
    for (int32_t i = 0; i < n; i++) {
        q[i * n + i] = 0.0f;
    }
    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = i + 1; j < n; j++) {
            const float first = tc_coupling_first(*x++, *a++, *b++), second = 1.0f - first;
            q[i * n + j] = -second * first;
            q[j * n + i] = -first * second;
            q[i * n + i] = tc_fma(second, second, q[i * n + i]);
            q[j * n + j] = tc_fma(first, first, q[j * n + j]);
        }
    }
}

/* products [n] = q * p. Returns p * q * p; how far the products are from it at most goes to `apart`. */
static float tc_coupling_apart(int32_t n, const float *q, const float *p, float *products, float *apart)
{
    float total = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int32_t j = 0; j < n; j++) {
            sum = tc_fma(q[i * n + j], p[j], sum);
        }
        products[i] = sum;
    }
    for (int32_t i = 0; i < n; i++) {
        total = tc_fma(p[i], products[i], total);
    }
    *apart = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        const float d = products[i] - total, size = d < 0.0f ? -d : d;
        if (size > *apart) *apart = size;
    }
    return total;
}

static void tc_pair_coupling_f32(const tc_pair_coupling_f32_t *p, const float *x, const float *a,
                                 const float *b, float *y, void *scratch)
{
    const int32_t n = p->classes;
    float *const q = (float *)scratch, *const products = q + n * n;
    tc_coupling_products(n, x, a, b, q);
    for (int32_t i = 0; i < n; i++) {
        y[i] = 1.0f / (float)n;
    }
    for (int32_t turn = 0; turn < 100; turn++) {
        float apart, total = tc_coupling_apart(n, q, y, products, &apart);
        if (!(apart >= p->stop)) break;
        for (int32_t i = 0; i < n; i++) {
            const float *const row = q + i * n;
            const float step = (total - products[i]) / row[i], more = 1.0f + step;
            y[i] += step;
            total = tc_fma(step, tc_fma(step, row[i], products[i] + products[i]), total) / more / more;
            for (int32_t j = 0; j < n; j++) {
                products[j] = tc_fma(step, row[j], products[j]) / more;
                y[j] = y[j] / more;
            }
        }
    }
}

#endif
