/* SPDX-License-Identifier: 0BSD */
/* Products of 32 bits of which the upper half is kept, rounded: one instruction of the DSP extension, and C
 * elsewhere.
 * Points: real and imaginary part, int32 each.
 */
#ifndef TC_SPECTRUM_MATH_H
#define TC_SPECTRUM_MATH_H

#include "tc_dsp.h"
#include "tc_signal_most.h"

#if TC_DSP_ASM

static inline int32_t tc_upper(int32_t a, int32_t b)
{
    int32_t r;
    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

static inline int32_t tc_plus_upper(int32_t acc, int32_t a, int32_t b)
{
    int32_t r;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(acc));
    return r;
}

static inline int32_t tc_less_upper(int32_t acc, int32_t a, int32_t b)
{
    int32_t r;
    __asm__("smmlsr %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(acc));
    return r;
}

/* The opposite order of bits. */
static inline uint32_t tc_bits_reversed(uint32_t v)
{
    uint32_t r;
    __asm__("rbit %0, %1" : "=r"(r) : "r"(v));
    return r;
}

#else

/* tc_upper: (a * b + 2^31) >> 32; tc_plus_upper: acc plus that; tc_less_upper: acc and (2^31 - a * b) >>
 * 32. */
#if defined(__ARM_ARCH_6M__)

/* Of a core that multiplies to 32 bits: the upper half of a product, from products of halves. */
static inline int32_t tc_upper_floor(int32_t a, int32_t b)
{
    const int32_t a_low = (int32_t)((uint32_t)a & 0xffff), a_high = a >> 16;
    const int32_t b_low = (int32_t)((uint32_t)b & 0xffff), b_high = b >> 16;
    const int32_t first = a_low * b_high + (int32_t)((uint32_t)a_low * (uint32_t)b_low >> 16);
    const int32_t second = a_high * b_low + (first & 0xffff);

    return a_high * b_high + (first >> 16) + (second >> 16);
}

static inline int32_t tc_upper(int32_t a, int32_t b)
{
    return tc_upper_floor(a, b) + (int32_t)((uint32_t)a * (uint32_t)b >> 31);
}
static inline int32_t tc_less_upper(int32_t acc, int32_t a, int32_t b)
{
    return acc - tc_upper_floor(a, b) - (int32_t)((uint32_t)a * (uint32_t)b > 0x80000000u);
}

#else

static inline int32_t tc_upper(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + 0x80000000LL) >> 32);
}
static inline int32_t tc_less_upper(int32_t acc, int32_t a, int32_t b)
{
    return acc + (int32_t)((0x80000000LL - (int64_t)a * b) >> 32);
}

#endif

static inline int32_t tc_plus_upper(int32_t acc, int32_t a, int32_t b)
{
    return acc + tc_upper(a, b);
}
static inline uint32_t tc_bits_reversed(uint32_t v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    v = (v >> 8 & 0x00ff00ffu) | (v & 0x00ff00ffu) << 8;
    return v >> 16 | v << 16;
}

#endif
#endif
