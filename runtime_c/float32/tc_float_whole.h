/* SPDX-License-Identifier: 0BSD */
/* Whole numbers near a float32. */
#ifndef TC_FLOAT_WHOLE_H
#define TC_FLOAT_WHOLE_H

#include "tc_float.h"

/* The largest integer that is not above x; 0 has the sign +. */
static inline float tc_floor(float x)
{
    if (!(x < 8388608.0f && x > -8388608.0f)) return x;
    const float whole = (float)(int32_t)x;
    return whole - (whole > x ? 1.0f : 0.0f);
}

/* The nearest integer, of two the even one. */
static inline float tc_nearest(float x)
{
    const float far = x < 0.0f ? -x : x;
    if (!(far < 8388608.0f)) return x;
    const float whole = (far + 8388608.0f) - 8388608.0f;
    return tc_float_of(tc_bits_of(whole) | (tc_bits_of(x) & (-0x7fffffff - 1)));
}

#endif
