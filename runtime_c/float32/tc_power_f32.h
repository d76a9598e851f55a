/* SPDX-License-Identifier: 0BSD */
/* x^exponent, float32: y[i] from x[i], i in [0, n). y may be x. No scratch.
 *
 * kind: 0: a product of `times` factors x; 1: the square root; 2: e^(exponent * log x). inverted: 1 divided
 * by that.
 */
#ifndef TC_POWER_F32_H
#define TC_POWER_F32_H

#include "tc_float_exp.h"
#include "tc_float_log.h"
#include "tc_float_root.h"

typedef struct {
    int32_t n, kind, times, inverted;
    float exponent;
} tc_power_f32_t;

static inline float tc_power(const tc_power_f32_t *p, float x)
{
    if (p->kind == 2) return tc_exp(p->exponent * tc_log(x));
    if (p->kind == 1) return tc_sqrt(x);
    float y = 1.0f;
    for (int32_t k = 0; k < p->times; k++) {
        y = y * x;
    }
    return y;
}

static void tc_power_f32(const tc_power_f32_t *p, const float *x, float *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        const float v = tc_power(p, x[i]);
        y[i] = p->inverted ? 1.0f / v : v;
    }
}

#endif
