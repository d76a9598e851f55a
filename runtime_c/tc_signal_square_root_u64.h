/* SPDX-License-Identifier: 0BSD */
/* y = the nearest integer to the root of x, >> *shift. x: two words per number, the low one first.
 *
 * Roots stay at 65535 while x < 2^32, and at 2^32 - 1 above. Bit by bit, two bits of x at a time, from the first that is set.
 * y may be x. No scratch.
 */
#ifndef TC_SIGNAL_SQUARE_ROOT_U64_H
#define TC_SIGNAL_SQUARE_ROOT_U64_H

#include "tc_signal_most.h"

static inline uint32_t tc_signal_root_short(uint32_t x)
{
    uint32_t root = 0, bit = x == 0 ? 0 : (uint32_t)1 << ((tc_signal_bits(x) - 1) & ~1);

    for (; bit != 0; bit >>= 2) {
        const uint32_t tried = root + bit;
        root >>= 1;
        if (x >= tried) {
            x -= tried;
            root += bit;
        }
    }
    return x > root && root != 0xffff ? root + 1 : root; /* x is what is left */
}

static uint32_t tc_signal_root(uint32_t low, uint32_t high)
{
    uint64_t left = (uint64_t)high << 32 | low, root = 0;
    uint64_t bit;

    if (high == 0) {
        return tc_signal_root_short(low);
    }
    bit = (uint64_t)1 << (32 + ((tc_signal_bits(high) - 1) & ~1));
    for (; bit != 0; bit >>= 2) {
        const uint64_t tried = root + bit;
        root >>= 1;
        if (left >= tried) {
            left -= tried;
            root += bit;
        }
    }
    return (uint32_t)(left > root && root != 0xffffffffu ? root + 1 : root);
}

static void tc_signal_square_root_u64(const uint32_t *x, const int32_t *shift, int32_t n, uint32_t *y)
{
    const int32_t bits = *shift & 31;

    for (int32_t i = 0; i < n; i++, x += 2) {
        y[i] = tc_signal_root(x[0], x[1]) >> bits;
    }
}

#endif
