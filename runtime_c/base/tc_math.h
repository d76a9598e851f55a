/* SPDX-License-Identifier: 0BSD */
/* Fixed-point arithmetic that every tinyc kernel shares. C99, freestanding.
 *
 * A real factor is mult * 2^(shift - 31), mult in [2^30, 2^31) or 0; shift > 0 is a left shift.
 * Twin of tinyc/base/numerics.py.
 */
#ifndef TC_MATH_H
#define TC_MATH_H

#include "tc_compiler.h"

/* C99 leaves the right shift of a negative number to the compiler; all kernels need the arithmetic one. */
typedef char tc_right_shift_is_arithmetic[(-1 >> 1) == -1 ? 1 : -1];

/* n words become 0. Not an initializer: compilers make a call of memset of that. */
static inline void tc_clear(int32_t *words, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        words[i] = 0;
    }
}

static inline int32_t tc_clamp(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* floor(acc * mult / 2^(31 - shift) + 1/2): one product, one rounding. shift in [-31, 30]. */
static inline int32_t tc_requantize_single(int32_t acc, int32_t mult, int32_t shift)
{
    return (int32_t)(((int64_t)acc * mult + ((int64_t)1 << (30 - shift))) >> (31 - shift));
}

/* Doubling high multiply, then a rounding right shift, halves away from zero. shift in [-31, 30].
 * acc * 2^shift must fit int32 when shift > 0. */
static inline int32_t tc_requantize_double(int32_t acc, int32_t mult, int32_t shift)
{
    int32_t left = shift > 0 ? shift : 0;
    int32_t right = shift > 0 ? 0 : -shift;
    int64_t shifted = (int64_t)acc * ((int64_t)1 << left);
    int32_t t = (int32_t)((shifted * mult + ((int64_t)1 << 30)) >> 31);
    int64_t half = right > 0 ? ((int64_t)1 << (right - 1)) - (t < 0) : 0;
    return (int32_t)((t + half) >> right);
}

/* The nearest integer, halves to even, limited to [-2^21, 2^21]. Reads the bits of v, so that no float
 * operation follows the one that computed v: a compiler could contract the two. */
static inline int32_t tc_round_half_even(float v)
{
    union { float f; int32_t i; } bits;
    bits.f = v;
    int32_t exponent = (bits.i >> 23) & 255;
    int32_t mantissa = (bits.i & 0x7fffff) | 0x800000;
    int32_t y = 0; /* |v| < 1/2 */
    if (exponent >= 127 + 21) {
        y = 1 << 21;
    } else if (exponent >= 127 - 1) { /* mantissa * 2^-cut, cut in [3, 24] */
        int32_t cut = 127 + 23 - exponent;
        y = (mantissa + (1 << (cut - 1)) - 1 + ((mantissa >> cut) & 1)) >> cut;
    }
    return bits.i < 0 ? -y : y;
}

/* A float from its bits: no C type mixes integers and floats in one table. */
static inline float tc_float_of(int32_t bits)
{
    union { int32_t i; float f; } both;
    both.i = bits;
    return both.f;
}

/* acc * scale in float32, rounded to nearest, halves to even, limited to [-2^21, 2^21]. */
static inline int32_t tc_requantize_float(int32_t acc, int32_t scale_bits)
{
    return tc_round_half_even((float)acc * tc_float_of(scale_bits));
}

/* The rule is the layer's: `rounds` is 1 (single), 2 (double) or 3 (float: mult holds the float's bits).
 * A literal folds the choice away. */
static inline int32_t tc_requantize(int32_t acc, int32_t mult, int32_t shift, int32_t rounds)
{
    if (rounds == 3) return tc_requantize_float(acc, mult);
    return rounds == 2 ? tc_requantize_double(acc, mult, shift) : tc_requantize_single(acc, mult, shift);
}

#endif
