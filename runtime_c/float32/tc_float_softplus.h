/* SPDX-License-Identifier: 0BSD */
/* log(1 + e^x) in float32. */
#ifndef TC_FLOAT_SOFTPLUS_H
#define TC_FLOAT_SOFTPLUS_H

#include "tc_float_exp.h"
#include "tc_float_log.h"

static inline float tc_softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + tc_log1p(tc_exp(x > 0.0f ? -x : x));
}

#endif
