/* SPDX-License-Identifier: 0BSD */
/* Products of 64 bits for cores that multiply to 32 bits (Armv6-M), from products of halves: a fifth of the
 * instructions of the compiler's own function. Other cores multiply. */
#ifndef TC_PRODUCTS_H
#define TC_PRODUCTS_H

#include "tc_math.h"

/* x * w, w below 2^16 */
TC_INLINE uint64_t tc_times_short(uint32_t x, uint32_t w)
{
#if defined(__ARM_ARCH_6M__)
    return ((uint64_t)((x >> 16) * w) << 16) + (x & 0xffff) * w;
#else
    return (uint64_t)x * w;
#endif
}

/* x * x */
TC_INLINE uint64_t tc_square(int32_t x)
{
#if defined(__ARM_ARCH_6M__)
    const uint32_t size = x < 0 ? 0u - (uint32_t)x : (uint32_t)x, low = size & 0xffff, high = size >> 16;
    return ((uint64_t)(high * high) << 32) + ((uint64_t)(high * low) << 17) + low * low;
#else
    return (uint64_t)((int64_t)x * x);
#endif
}

#endif
