/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis of many rows: the bytes of tc_softmax_s8, with a table for every step below the
 * maximum.
 *
 *   e[c] = exps[255 + x[c] - max]                     Q0.31, from the compiler: ascending, the last one 1
 *   y[c] = min(round(e[c] / sum(e) * 256) - 128, 127)
 *
 * Sum, reciprocal and products are rounded as tc_softmax_fixed.h says; the two roundings of a product, halves
 * up after floors, are one. depth <= 4095. y may be x. No scratch.
 */
#ifndef TC_SOFTMAX_MANY_S8_H
#define TC_SOFTMAX_MANY_S8_H

#include "tc_softmax_fixed.h"

typedef struct {
    const int32_t *exps; /* [256], ascending */
    int32_t outer, depth;
} tc_softmax_many_s8_t;

/* Greatest of n >= 1 int8. */
static inline int32_t tc_softmax_many_max(const int8_t *x, int32_t n)
{
    int32_t max = x[0];

#if TC_GNU && defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED)
    if (n >= 4) {
        int32_t most = (int32_t)tc_load_word(x);
        for (; n >= 4; n -= 4, x += 4) {
            __asm__("ssub8 r12, %0, %1 \n sel %0, %0, %1" : "+r"(most) : "r"(tc_load_word(x)) : "r12", "cc");
        }
        for (int32_t i = 0; i < 4; i++) {
            const int32_t v = (int8_t)(uint8_t)((uint32_t)most >> (8 * i));
            max = v > max ? v : max;
        }
    }
#endif
    for (int32_t c = 0; c < n; c++) {
        max = x[c] > max ? x[c] : max;
    }
    return max;
}

/* What the elements of a row have in common: e[x] is that of an element x, and its share is the high word of
 * scale * e[x] + half * 2^32 + 2^30, shifted. */
typedef struct {
    const int32_t *e;
    uint32_t scale, half;
    int32_t shift;
} tc_softmax_many_row_t;

/* e / sum(e) * 256 of an element, 0 to 256: 1 / sum(e) is right to 2^-28 of it. */
static inline int32_t tc_softmax_many_share(const tc_softmax_many_row_t *row, int32_t x)
{
    const uint32_t e = (uint32_t)row->e[x];
    const uint64_t sum = (uint64_t)row->scale * e + (((uint64_t)row->half << 32) + ((uint64_t)1 << 30));
    return (int32_t)((uint32_t)(sum >> 32) >> row->shift);
}

/* Of a row whose sum of exponentials this is, each in steps of 2^12. whole: 1 where 1 is 255 steps, 0 where
 * it is 256 and cut off. */
static inline tc_softmax_many_row_t tc_softmax_many_of(const int32_t *e, uint32_t sum, uint32_t whole)
{
    tc_softmax_many_row_t row = {e, 0, 0, 0};
    const int32_t headroom = tc_softmax_headroom(sum);
    const uint32_t share = (uint32_t)tc_softmax_reciprocal((int32_t)((sum << headroom) - 0x80000000u));
    row.scale = share - whole * ((share + 128u) >> 8);
    /* Of the high word. Where the sum is 2^29 or more, no share is half a step: the high word has 30 bits. */
    row.shift = headroom > 2 ? 34 - headroom : 31;
    row.half = headroom > 2 ? (uint32_t)1 << (row.shift - 1) : 0;
    return row;
}

static inline tc_softmax_many_row_t tc_softmax_many_begin(const int32_t *exps, const int8_t *x, int32_t depth,
                                                          uint32_t whole)
{
    const int32_t *e = exps + 255 - tc_softmax_many_max(x, depth);
    uint32_t sum = 0;
    int32_t c = 0;

    for (; c + 4 <= depth; c += 4) {
        const uint32_t e0 = (uint32_t)e[x[c]], e1 = (uint32_t)e[x[c + 1]];
        const uint32_t e2 = (uint32_t)e[x[c + 2]], e3 = (uint32_t)e[x[c + 3]];
        sum += (e0 + 2048u) >> 12;
        sum += (e1 + 2048u) >> 12;
        sum += (e2 + 2048u) >> 12;
        sum += (e3 + 2048u) >> 12;
    }
    for (; c < depth; c++) {
        sum += ((uint32_t)e[x[c]] + 2048u) >> 12;
    }
    return tc_softmax_many_of(e, sum, whole);
}

/* From a share to int8; 256 is cut off. */
static inline int8_t tc_softmax_many_cut_off(int32_t share)
{
    return (int8_t)(share - (share >> 8) - 128);
}

/* The empty asm keeps compilers from gathering four bytes with a BFI each to save three stores. */
#if TC_GNU
#define TC_SOFTMAX_STORE(to, share)                    \
    do {                                               \
        (to) = tc_softmax_many_cut_off(share);         \
        __asm__ __volatile__("" ::: "memory");         \
    } while (0)
#else
#define TC_SOFTMAX_STORE(to, share) ((to) = tc_softmax_many_cut_off(share))
#endif

static inline void tc_softmax_many_row(const int32_t *exps, const int8_t *x, int32_t depth, uint32_t whole,
                                       int8_t *y)
{
    const tc_softmax_many_row_t row = tc_softmax_many_begin(exps, x, depth, whole);
    int32_t c = 0;

    for (; c + 4 <= depth; c += 4) {
        const int32_t x0 = x[c], x1 = x[c + 1], x2 = x[c + 2], x3 = x[c + 3];
        TC_SOFTMAX_STORE(y[c], tc_softmax_many_share(&row, x0));
        TC_SOFTMAX_STORE(y[c + 1], tc_softmax_many_share(&row, x1));
        TC_SOFTMAX_STORE(y[c + 2], tc_softmax_many_share(&row, x2));
        TC_SOFTMAX_STORE(y[c + 3], tc_softmax_many_share(&row, x3));
    }
    for (; c < depth; c++) {
        TC_SOFTMAX_STORE(y[c], tc_softmax_many_share(&row, x[c]));
    }
}

static TC_UNUSED void tc_softmax_many_s8(const tc_softmax_many_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        tc_softmax_many_row(p->exps, x, p->depth, 0, y);
    }
}
#undef TC_SOFTMAX_STORE

#endif
