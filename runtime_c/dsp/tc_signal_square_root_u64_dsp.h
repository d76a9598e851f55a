/* SPDX-License-Identifier: 0BSD */
/* tc_signal_square_root_u64 for cores that divide in hardware. Same results; y may be x. No scratch.
 *
 * The upper 32 bits of x, shifted up as far as they go by an even number, have a root of 16 bits: a straight
 * line, and two steps of Newton's method from above. What is left of them over twice the root gives the 16
 * bits below (Zimmermann, "Karatsuba square root", 1999), one too much at most.
 */
#ifndef TC_SIGNAL_SQUARE_ROOT_U64_DSP_H
#define TC_SIGNAL_SQUARE_ROOT_U64_DSP_H

#include "tc_signal_most.h"

static inline uint32_t tc_divided_root_upper(uint32_t x) /* floor; x >= 2^30 */
{
    uint32_t r = 22500 + (uint32_t)(((uint64_t)x * 45000) >> 32); /* within 5 % */

    r = (r + x / r) >> 1;
    r = (r + x / r) >> 1;
    r = r > 0xffff ? 0xffff : r;
    return r * r > x ? r - 1 : r;
}

static inline uint32_t tc_divided_root(uint32_t low, uint32_t high) /* not both 0 */
{
    const uint32_t upper = high != 0 ? high : low, lower = high != 0 ? low : 0;
    const int32_t up = (32 - tc_signal_bits(upper)) & ~1;
    const uint32_t a = upper << up | (lower >> 1) >> (31 - up), b = lower << up;
    uint32_t first, left, second, root;
    uint64_t rest;

    first = tc_divided_root_upper(a);
    left = (a - first * first) << 15 | b >> 17;
    second = left / first;
    root = (first << 16) + (second > 0xffff ? 0xffff : second);
    root = high != 0 ? root >> (up / 2) : root >> 16 >> (up / 2);
    rest = ((uint64_t)high << 32 | low) - (uint64_t)root * root;
    if (rest >> 34 != 0) { /* below 0: one too much */
        root--;
        rest += 2 * (uint64_t)root + 1;
    }
    return rest > root && root != (high != 0 ? 0xffffffffu : 0xffff) ? root + 1 : root;
}

static void tc_signal_square_root_u64_dsp(const uint32_t *x, const int32_t *shift, int32_t n, uint32_t *y)
{
    const int32_t bits = *shift & 31;

    for (int32_t i = 0; i < n; i++, x += 2) {
        y[i] = (x[0] | x[1]) == 0 ? 0 : tc_divided_root(x[0], x[1]) >> bits;
    }
}

#endif
