/* SPDX-License-Identifier: 0BSD */
/* The square root in float32, correctly rounded; without a mathematics library. */
#ifndef TC_FLOAT_ROOT_H
#define TC_FLOAT_ROOT_H

#include "tc_float.h"

#if TC_GNU && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)

static inline float tc_sqrt(float x)
{
    float y;
    __asm__("vsqrt.f32 %0, %1" : "=t"(y) : "t"(x));
    return y;
}

#else

static inline float tc_sqrt(float x)
{
    int32_t bits = tc_bits_of(x), exponent = 0;
    if (!(x > 0.0f) || bits >= 0x7f800000) return x < 0.0f ? tc_float_of(0x7fc00000) : x;
    if (bits < 0x800000) {
        bits = tc_bits_of(x * 16777216.0f);
        exponent = -24;
    }
    exponent += (bits >> 23) - 127;
    /* 25 bits of the root of a number in [2^48, 2^50), bit by bit; a tie cannot be. */
    uint64_t rest = (uint64_t)((bits & 0x7fffff) | 0x800000) << (25 + (exponent & 1)), root = 0;
    for (uint64_t bit = (uint64_t)1 << 48; bit > 0; bit >>= 2) {
        const uint64_t trial = root + bit;
        root >>= 1;
        if (rest >= trial) {
            rest -= trial;
            root += bit;
        }
    }
    const int32_t half = (exponent - (exponent & 1)) / 2; /* of the exponent, down */
    return tc_float_of((int32_t)((root + 1) >> 1) + (half + 126) * 0x800000);
}

#endif

#endif
