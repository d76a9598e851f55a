/* SPDX-License-Identifier: 0BSD */
/* e^x and what is made of it, in float32; without a mathematics library. Errors: docs/float32.md of tinyc. */
#ifndef TC_FLOAT_EXP_H
#define TC_FLOAT_EXP_H

#include "tc_float.h"

/* p * 2^k for p in [1/2, 2) whose product is no infinity, rounded once. */
static inline float tc_scale_by_power(float p, int32_t k)
{
    const int32_t bits = tc_bits_of(p);
    if ((bits >> 23) + k >= 1) return tc_float_of(bits + k * 0x800000);
    return tc_fma(tc_float_of(bits + (k + 64) * 0x800000), 5.4210109e-20f, 0.0f); /* 2^-64 */
}

/* e^r - 1 for |r| < 0.35. */
static inline float tc_near_expm1(float r)
{
    float q = 0.0013820468448102474f;
    q = tc_fma(q, r, 0.00836925022304058f);
    q = tc_fma(q, r, 0.04166828468441963f);
    q = tc_fma(q, r, 0.16666516661643982f);
    q = tc_fma(q, r, 0.4999999403953552f);
    return tc_fma(q, r * r, r);
}

static inline float tc_exp(float x)
{
    if (x > 88.72284f) return tc_float_of(0x7f800000);
    if (x < -104.0f) return 0.0f;
    if (!(x == x)) return x;
    const float n = tc_fma(x, 1.442695041f, 12582912.0f) - 12582912.0f; /* the nearest integer to x / ln 2 */
    const float r = tc_fma(n, 2.1219444e-4f, tc_fma(n, -0.693359375f, x));
    return tc_scale_by_power(tc_near_expm1(r) + 1.0f, (int32_t)n);
}

static inline float tc_expm1(float x)
{
    return (x < 0.0f ? -x : x) < 0.34f ? tc_near_expm1(x) : tc_exp(x) - 1.0f;
}

static inline float tc_sigmoid(float x)
{
    const float e = tc_exp(x < 0.0f ? x : -x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float tc_tanh(float x)
{
    const float far = x < 0.0f ? -x : x;
    if (far < 0.625f) {
        const float square = x * x;
        float q = -0.0057162027806043625f;
        q = tc_fma(q, square, 0.020649708807468414f);
        q = tc_fma(q, square, -0.05374317243695259f);
        q = tc_fma(q, square, 0.13331486284732819f);
        q = tc_fma(q, square, -0.3333328366279602f);
        return tc_fma(q * square, x, x);
    }
    const float y = 1.0f - 2.0f / (tc_exp(2.0f * far) + 1.0f);
    return x < 0.0f ? -y : y;
}

#endif
