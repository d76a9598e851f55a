/* SPDX-License-Identifier: 0BSD */
/* What the fixed-point softmaxes share: gemmlowp's reciprocal, bit for bit, and the table of exponentials. */
#ifndef TC_SOFTMAX_FIXED_H
#define TC_SOFTMAX_FIXED_H

#include "tc_math.h"

typedef struct {
    const int32_t *exps; /* [exp_count], non-increasing, exps[0] = 2^31 - 1 */
    int32_t exp_count;   /* 1..256 */
    int32_t outer, depth;
} tc_softmax_s8_t;

/* round(a * b / 2^31), for operands that are not both -2^31 */
static inline int32_t tc_softmax_mul(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

static inline int32_t tc_softmax_shift_left(int32_t v, int32_t bits)
{
    const int64_t wide = (int64_t)v * ((int64_t)1 << bits);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* c + round(a * b / 2^32), halves up */
static inline int32_t tc_softmax_high(int32_t a, int32_t b, int32_t c)
{
    return c + (int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32);
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31; inside Q2.29.
 *
 * gemmlowp multiplies by d = (1 + a) / 2 as round(d * x / 2^31). Twice d, less 2^32, is an int32, so that
 * this is x + round(twice * x / 2^32). Of its saturating shifts only the last one can saturate, where
 * 1 / (1 + a) is 1. */
static inline int32_t tc_softmax_reciprocal(int32_t a)
{
    const int32_t twice = (a & ~1) + INT32_MIN;
    int32_t x = tc_softmax_high(twice, -1010580540, 1515870810 - 1010580540); /* 48/17 - 32/17 d */

    for (int32_t step = 0; step < 3; step++) {
        const int32_t error = ((int32_t)1 << 29) - tc_softmax_high(twice, x, x);
        x += 4 * tc_softmax_high(2 * error, x, 0);
    }
    return x >= (int32_t)1 << 30 ? INT32_MAX : 2 * x;
}

/* Leading zeros of a sum, which is not 0. */
static inline int32_t tc_softmax_headroom(uint32_t sum)
{
#if TC_GNU
    return __builtin_clz(sum);
#else
    int32_t headroom = 0;
    while ((sum << headroom) < 0x80000000u) {
        headroom++;
    }
    return headroom;
#endif
}

static inline int32_t tc_softmax_exp(const tc_softmax_s8_t *p, int32_t below)
{
    return below < p->exp_count ? p->exps[below] : 0;
}

/* What the elements of a row share. */
typedef struct {
    int32_t max;      /* of the row */
    int32_t scale;    /* 1 / sum(e) in Q0.31, times a power of two: */
    int32_t headroom; /* leading zeros of the sum, which is in Q12.19 */
} tc_softmax_row_t;

static inline tc_softmax_row_t tc_softmax_row(const tc_softmax_s8_t *p, const int8_t *x)
{
    tc_softmax_row_t row = {x[0], 0, 0};
    int32_t sum = 0;

    for (int32_t c = 1; c < p->depth; c++) {
        row.max = x[c] > row.max ? x[c] : row.max;
    }
    for (int32_t c = 0; c < p->depth; c++) {
        sum += (int32_t)(((uint32_t)tc_softmax_exp(p, row.max - x[c]) + (1u << 11)) >> 12);
    }
    row.headroom = tc_softmax_headroom((uint32_t)sum);
    row.scale = tc_softmax_reciprocal((int32_t)(((uint32_t)sum << row.headroom) - 0x80000000u));
    return row;
}

/* round(e / sum(e) * 2^bits) for the row's element x */
static inline int32_t tc_softmax_share(const tc_softmax_s8_t *p, tc_softmax_row_t row, int32_t x,
                                       int32_t bits)
{
    const int32_t shift = 12 - row.headroom + 31 - bits;
    const int32_t e = tc_softmax_mul(row.scale, tc_softmax_exp(p, row.max - x));
    return (int32_t)(((int64_t)e + ((int64_t)1 << (shift - 1))) >> shift);
}

#endif
