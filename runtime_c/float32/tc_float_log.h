/* SPDX-License-Identifier: 0BSD */
/* The natural logarithm in float32: -infinity of 0, not a number below; log(1 + e^x). Error: docs/float32.md
 * of tinyc. */
#ifndef TC_FLOAT_LOG_H
#define TC_FLOAT_LOG_H

#include "tc_float_exp.h"

/* (log(1 + f) - f) / f^2 for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
static inline float tc_log_tail(float f)
{
    float q = -0.07636940479278564f;
    q = tc_fma(q, f, 0.12762485444545746f);
    q = tc_fma(q, f, -0.13159550726413727f);
    q = tc_fma(q, f, 0.14201539754867554f);
    q = tc_fma(q, f, -0.1662341058254242f);
    q = tc_fma(q, f, 0.2000124305486679f);
    q = tc_fma(q, f, -0.2500081956386566f);
    q = tc_fma(q, f, 0.3333333134651184f);
    q = tc_fma(q, f, -0.5f);
    return q;
}

static inline float tc_log(float x)
{
    if (!(x > 0.0f && tc_bits_of(x) < 0x7f800000)) {
        return tc_float_of(x == 0.0f ? (int32_t)(-0x7fffffff - 1 + 0x7f800000) : x < 0.0f ? 0x7fc00000
                           : tc_bits_of(x));
    }
    int32_t bits = tc_bits_of(x), k = 0;
    if (bits < 0x800000) {
        bits = tc_bits_of(x * 4294967296.0f);
        k = -32;
    }
    const int32_t up = (bits - 0x3f3504f3) >> 23; /* from the bits of sqrt(1/2) */
    const float e = (float)(k + up), f = tc_float_of(bits - up * 0x800000) - 1.0f;
    return tc_fma(e, 0.693359375f, tc_fma(tc_log_tail(f), f * f, tc_fma(e, -2.1219444e-4f, f)));
}

/* log(1 + x) for x >= 0. */
static inline float tc_log1p(float x)
{
    return x < 0.4f ? tc_fma(tc_log_tail(x), x * x, x) : tc_log(1.0f + x);
}

/* log(1 + e^x). */
static inline float tc_softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + tc_log1p(tc_exp(x > 0.0f ? -x : x));
}

#endif
