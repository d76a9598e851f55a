/* SPDX-License-Identifier: 0BSD */
/* float32 arithmetic that gives the same bits on every core and with every compiler. C99, freestanding.
 *
 * All is made of operations of IEEE 754, rounded to nearest, ties to even. No product feeds a sum but through
 * tc_fma, so that there is nothing for a compiler to contract, whatever -ffp-contract says. Twin of
 * tinyc/base/float32.py.
 */
#ifndef TC_FLOAT_H
#define TC_FLOAT_H

#include "tc_math.h"

#if defined(__FAST_MATH__)
#error "float32 libraries of tinyc keep to IEEE 754: compile them without -ffast-math and -Ofast"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "float32 libraries of tinyc need float arithmetic in float: compile them with -mfpmath=sse"
#endif

static inline int32_t tc_bits_of(float v)
{
    union { float f; int32_t i; } both;
    both.f = v;
    return both.i;
}

#if TC_GNU && ((defined(__ARM_FEATURE_FMA) && defined(__ARM_FP)) || defined(__FMA__) || defined(__riscv_flen))

/* x * y + z, rounded once. Clang makes a call of fmaf of the built-in function where errno counts. */
static inline float tc_fma(float x, float y, float z)
{
#if !defined(__clang__)
    return __builtin_fmaf(x, y, z);
#elif defined(__ARM_FEATURE_FMA)
    __asm__("vfma.f32 %0, %1, %2" : "+t"(z) : "t"(x), "t"(y));
    return z;
#elif defined(__FMA__)
    __asm__("vfmadd231ss %2, %1, %0" : "+x"(z) : "x"(x), "x"(y));
    return z;
#else
    __asm__("fmadd.s %0, %1, %2, %0" : "+f"(z) : "f"(x), "f"(y));
    return z;
#endif
}

#else

/* How far the highest bit of v, which is not 0, lies below bit 63. */
static inline int32_t tc_leading_zeros(uint64_t v)
{
#if TC_GNU
    return __builtin_clzll(v);
#else
    int32_t n = 0;
    for (int32_t step = 32; step > 0; step /= 2) {
        if (v >> (64 - step) == 0) {
            v <<= step;
            n += step;
        }
    }
    return n;
#endif
}

/* v >> n; its last bit is 1 also where bits that are not 0 fell out. */
static inline uint64_t tc_shift_sticky(uint64_t v, int32_t n)
{
    if (n > 63) return v != 0;
    return v >> n | (uint64_t)(n > 0 && v << (64 - n) != 0);
}

/* The finite |v| as mantissa * 2^(exponent - 149), exponent >= 0. */
static inline uint32_t tc_mantissa(int32_t bits, int32_t *exponent)
{
    const int32_t field = bits >> 23 & 255;
    *exponent = field > 0 ? field - 1 : 0;
    return ((uint32_t)bits & 0x7fffffu) | (field > 0 ? 0x800000u : 0u);
}

/* sum * 2^(exponent - 300) rounded to float32, its sign given; sum is not 0, and below 2^63. */
static inline float tc_rounded(uint64_t sum, int32_t exponent, uint32_t sign)
{
    const int32_t up = tc_leading_zeros(sum) - 1; /* to bit 62 */
    int32_t field = exponent - up - 150 + 38;     /* of the result, where that is normal; 62 - 38 = 24 bits */
    uint64_t v = sum << up;
    if (field < 0) {
        v = tc_shift_sticky(v, -field);
        field = 0;
    }
    const uint64_t rest = v & 0x7fffffffffu, half = 0x4000000000u; /* 39 bits behind 24 */
    uint32_t mantissa = (uint32_t)(v >> 39);
    mantissa += rest > half || (rest == half && (mantissa & 1u) != 0);
    mantissa += (uint32_t)field << 23; /* a carry goes into the exponent, as it should */
    if (field > 253 || mantissa > 0x7f800000u) mantissa = 0x7f800000u;
    return tc_float_of((int32_t)(mantissa | sign << 31));
}

/* x * y + z, rounded once; in integers, for cores and compilers that have no such instruction. */
static TC_NOINLINE TC_UNUSED float tc_fma(float x, float y, float z)
{
    const int32_t a = tc_bits_of(x), b = tc_bits_of(y), c = tc_bits_of(z);
    int32_t ea, eb, ec;
    const int32_t infinite = 0x7f800000;
    if ((a & infinite) == infinite || (b & infinite) == infinite || (a & 0x7fffffff) == 0 ||
        (b & 0x7fffffff) == 0) {
        return x * y + z; /* the product is exact */
    }
    if ((c & infinite) == infinite) return z;
    uint64_t product = (uint64_t)tc_mantissa(a, &ea) * tc_mantissa(b, &eb);
    uint64_t addend = tc_mantissa(c, &ec);
    const uint32_t sign = (uint32_t)(a ^ b) >> 31, other = (uint32_t)c >> 31;
    const int32_t up = tc_leading_zeros(product) - 2; /* to bit 61: there is room for a sum */
    int32_t exponent = ea + eb + 2 - up;              /* product * 2^(exponent - 300) */
    product <<= up;
    if (addend == 0) return tc_rounded(product, exponent, sign);
    const int32_t far = tc_leading_zeros(addend) - 2;
    addend <<= far;
    ec += 151 - far;
    if (exponent >= ec) {
        addend = tc_shift_sticky(addend, exponent - ec);
    } else {
        product = tc_shift_sticky(product, ec - exponent);
        exponent = ec;
    }
    if (sign == other) return tc_rounded(product + addend, exponent, sign);
    if (product == addend) return 0.0f;
    return product > addend ? tc_rounded(product - addend, exponent, sign) : tc_rounded(addend - product,
        exponent, other);
}

#endif

/* lo where y <= lo, hi where y >= hi, else y: what is not a number stays so; relu makes +0 of -0. */
static inline float tc_clip(float y, float lo, float hi)
{
    /* infinite bounds cost nothing where they are constants */
    if (tc_bits_of(lo) != -0x800000 && y <= lo) return lo;
    if (tc_bits_of(hi) != 0x7f800000 && y >= hi) return hi;
    return y;
}

/* acc[j] = fma(x[i], w[i][j], acc[j]) for each i in [0, n) in turn, and j in [0, 4). */
static inline void tc_add_four_f32(float *acc, const float *x, const float *w, int32_t n)
{
    float a = acc[0], b = acc[1], c = acc[2], d = acc[3];

    for (int32_t i = 0; i < n; i++, w += 4) {
        a = tc_fma(x[i], w[0], a);
        b = tc_fma(x[i], w[1], b);
        c = tc_fma(x[i], w[2], c);
        d = tc_fma(x[i], w[3], d);
    }
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

#endif
