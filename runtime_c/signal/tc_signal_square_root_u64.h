/* SPDX-License-Identifier: 0BSD */
/* y = the nearest integer to the root of x, >> *shift. x: two words per number, the low one first.
 *
 * Roots stay at 65535 while x < 2^32, and at 2^32 - 1 above. Bit by bit, two bits of x at a time, from the
 * first that is set, in 32 bits as far as these hold what is left.
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

/* A root, bit by bit, and what is left: at most twice the root. */
typedef struct {
    uint32_t root, left;
} tc_signal_partial_t;

/* So many pairs of bits more, from the top of `word` on. What is left stays in 32 bits up to the 29th bit of
 * the root. */
static inline void tc_signal_root_pairs(uint32_t word, int32_t pairs, tc_signal_partial_t *p)
{
    uint32_t root = p->root, left = p->left;

    for (; pairs > 0; pairs--, word <<= 2) {
        const uint32_t tried = root << 2 | 1;
        left = left << 2 | word >> 30;
        root <<= 1;
        if (left >= tried) {
            left -= tried;
            root |= 1;
        }
    }
    p->root = root;
    p->left = left;
}

static uint32_t tc_signal_root(uint32_t low, uint32_t high)
{
    const int32_t upper = (tc_signal_bits(high) + 1) / 2, last = upper > 13 ? upper - 13 : 0; /* pairs */
    tc_signal_partial_t p;
    uint64_t left, root;

    if (high == 0) {
        return tc_signal_root_short(low);
    }
    p.root = 0;
    p.left = 0;
    tc_signal_root_pairs(high << (32 - 2 * upper), upper, &p);
    tc_signal_root_pairs(low, 16 - last, &p);
    root = p.root;
    left = p.left;
    for (int32_t pair = 2 * last - 2; pair >= 0; pair -= 2) {
        const uint64_t tried = root << 2 | 1;
        left = left << 2 | (low >> pair & 3);
        root <<= 1;
        if (left >= tried) {
            left -= tried;
            root |= 1;
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
