/* SPDX-License-Identifier: 0BSD */
/* Scaling of 64-bit accumulators. C99, freestanding. */
#ifndef TC_WIDE_H
#define TC_WIDE_H

#include "tc_math.h"

/* rounds 1 and 2: tc_requantize of an accumulator that fits int32. rounds 4: mult has 16 bits,
 * floor(acc * mult / 2^(15 - shift) + 1/2) as TensorFlow Lite scales 64-bit accumulators, limited to half of
 * int32; acc below 2^47, shift in [-31, 7]. */
static inline int32_t tc_scale_wide(int64_t acc, int32_t mult, int32_t shift, int32_t rounds)
{
    if (rounds == 4) {
        const int64_t v = (acc * mult + ((int64_t)1 << (14 - shift))) >> (15 - shift);
        return (int32_t)(v > INT32_MAX / 2 ? INT32_MAX / 2 : v < INT32_MIN / 2 ? INT32_MIN / 2 : v);
    }
    return tc_requantize((int32_t)acc, mult, shift, rounds);
}

#endif
