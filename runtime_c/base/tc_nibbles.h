/* SPDX-License-Identifier: 0BSD */
/* int4 weights, two in a byte: the first in the low half, each in [-8, 7]. */
#ifndef TC_NIBBLES_H
#define TC_NIBBLES_H

#include "tc_math.h"

/* Weight number i. */
static inline int32_t tc_nibble(const uint8_t *w, int32_t i)
{
    const int32_t nibble = (w[i >> 1] >> (i & 1) * 4) & 15;
    return (nibble ^ 8) - 8;
}

#endif
