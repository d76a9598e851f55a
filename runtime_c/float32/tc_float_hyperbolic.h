/* SPDX-License-Identifier: 0BSD */
/* Hyperbolic sine and cosine, and the inverses of these and of the tangent, in float32. Errors:
 * docs/float32.md of tinyc. */
#ifndef TC_FLOAT_HYPERBOLIC_H
#define TC_FLOAT_HYPERBOLIC_H

#include "tc_float_exp.h"
#include "tc_float_log.h"
#include "tc_float_root.h"

#define TC_LN2 0.6931471824645996f

/* e^far / 2, and e^-far / 2 beside it: of large numbers by squares, which reach further. */
static inline float tc_exp_halves(float far, float *shrunk)
{
    const int32_t large = far > 88.0f;
    const float e = tc_exp(large ? 0.5f * far : far), half = 0.5f * e;
    *shrunk = large ? 0.0f : 0.5f / e;
    return large ? half * e : half;
}

static inline float tc_sinh(float x)
{
    const float far = x < 0.0f ? -x : x;
    float shrunk;
    if (far < 1.0f) {
        const float square = x * x;
        float q = 2.8068109259038465e-06f;
        q = tc_fma(q, square, 0.00019838035223074257f);
        q = tc_fma(q, square, 0.008333340287208557f);
        q = tc_fma(q, square, 0.1666666716337204f);
        return tc_fma(q * square, x, x);
    }
    const float grown = tc_exp_halves(far, &shrunk), y = grown - shrunk;
    return x < 0.0f ? -y : y;
}

static inline float tc_cosh(float x)
{
    float shrunk;
    const float grown = tc_exp_halves(x < 0.0f ? -x : x, &shrunk);
    return grown + shrunk;
}

static inline float tc_asinh(float x)
{
    const float far = tc_float_of(tc_bits_of(x) & 0x7fffffff);
    const float y = far > 1e9f ? tc_log(far) + TC_LN2
                               : tc_log1p(tc_fma(far, far / (1.0f + tc_sqrt(tc_fma(far, far, 1.0f))), far));
    return tc_bits_of(x) < 0 ? -y : y;
}

static inline float tc_acosh(float x)
{
    const float above = x - 1.0f;
    if (x < 1.0f) return tc_float_of(0x7fc00000);
    return x > 1e9f ? tc_log(x) + TC_LN2 : tc_log1p(above + tc_sqrt(above * (x + 1.0f)));
}

static inline float tc_atanh(float x)
{
    const float far = tc_float_of(tc_bits_of(x) & 0x7fffffff);
    if (far > 1.0f) return tc_float_of(0x7fc00000);
    const float y = 0.5f * tc_log1p((far + far) / (1.0f - far));
    return tc_bits_of(x) < 0 ? -y : y;
}

#endif
