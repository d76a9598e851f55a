/* SPDX-License-Identifier: 0BSD */
/* Codes of features, which compare with the cuts of trees as the features do.
 *
 *   key     = the feature as an integer of the same order (int32: itself; float32: its bits,
 *       turned where negative)
 *   code[i] = how many of the cuts of code i are less than key; of int32 codes: key
 *
 * x [any] float32 (is_float) or int32; code i is of x[feature[i]]. Its cuts are count[i] keys in rising
 * order, behind those of code i - 1. A NaN has the key nan_key[i], or where nan_key is null exceeds all cuts.
 * not_negative: neither a cut nor a nan_key is less than 0, and features are not expected to be. No float
 * arithmetic.
 */
#ifndef TC_FEATURE_CODES_H
#define TC_FEATURE_CODES_H

#include "tc_math.h"

typedef struct {
    int32_t n, is_float, not_negative;
    const uint16_t *feature, *count;
    const int32_t *nan_key, *cuts;
} tc_feature_codes_t;

static inline int32_t tc_feature_key(const tc_feature_codes_t *p, const void *x, int32_t i)
{
    const uint32_t bits = tc_load_word((const uint8_t *)x + 4 * p->feature[i]);

    if (!p->is_float) {
        return (int32_t)bits;
    }
    if ((bits << 1) > 0xff000000u) {
        return p->nan_key ? p->nan_key[i] : 0x7fffffff;
    }
    return (int32_t)(bits ^ ((0u - (bits >> 31)) >> 1));
}

static inline int32_t tc_feature_rank(const int32_t *cuts, int32_t count, int32_t key)
{
    const int32_t *low = cuts;

    while (count > 0) {
        const int32_t half = count >> 1;
        if (low[half] < key) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return (int32_t)(low - cuts);
}

static TC_UNUSED void tc_feature_codes_u8(const tc_feature_codes_t *p, const void *x, uint8_t *codes)
{
    const int32_t *cuts = p->cuts;

    for (int32_t i = 0; i < p->n; cuts += p->count[i], i++) {
        codes[i] = (uint8_t)tc_feature_rank(cuts, p->count[i], tc_feature_key(p, x, i));
    }
}

static TC_UNUSED void tc_feature_codes_s16(const tc_feature_codes_t *p, const void *x, int16_t *codes)
{
    const int32_t *cuts = p->cuts;

    for (int32_t i = 0; i < p->n; cuts += p->count[i], i++) {
        codes[i] = (int16_t)tc_feature_rank(cuts, p->count[i], tc_feature_key(p, x, i));
    }
}

static TC_UNUSED void tc_feature_codes_s32(const tc_feature_codes_t *p, const void *x, int32_t *codes)
{
    for (int32_t i = 0; i < p->n; i++) {
        codes[i] = tc_feature_key(p, x, i);
    }
}

#if TC_GNU
typedef int32_t __attribute__((may_alias)) tc_feature_bits_t;
#else
typedef int32_t tc_feature_bits_t;
#endif

/* Whether n floats, given as bits, hold a NaN; where they are `not_negative`, whether one has a sign. */
static inline int tc_feature_any_nan(const tc_feature_bits_t *bits, int32_t n, int32_t not_negative)
{
    /* GCC 12 warns of a loop from i to n where n is a known multiple of 4. */
    const int32_t last = n & 3;
    uint32_t any = 0;

#define TC_FEATURE_NAN(k) \
    (not_negative ? (uint32_t)bits[k] : ((uint32_t)bits[k] & 0x7fffffffu) + 0x7fffffu)
    for (int32_t i = 0; i < n - 3; i += 4) {
        any |= TC_FEATURE_NAN(i) | TC_FEATURE_NAN(i + 1) | TC_FEATURE_NAN(i + 2) | TC_FEATURE_NAN(i + 3);
    }
    for (int32_t i = 0; i < last; i++) {
        any |= TC_FEATURE_NAN(n - last + i);
    }
#undef TC_FEATURE_NAN
    return (any >> 31) != 0;
}

/* The first n features as integers that compare as they do with cuts that are turned as they are: int32 as
 * they lie. Floats too, unless one may be a NaN: then a copy in scratch, in which a NaN is the bits of its
 * key. */
static TC_UNUSED const tc_feature_bits_t *tc_feature_bits(const tc_feature_codes_t *p, const void *x,
                                                          void *scratch)
{
    tc_feature_bits_t *copy = (tc_feature_bits_t *)scratch;

#if TC_GNU
    const tc_feature_bits_t *bits = (const tc_feature_bits_t *)x;
    if (!p->is_float || !tc_feature_any_nan(bits, p->n, p->not_negative)) {
        return bits;
    }
#else
    if (!p->is_float) {
        return (const int32_t *)x;
    }
#endif
    for (int32_t i = 0; i < p->n; i++) {
        const uint32_t held = tc_load_word((const uint8_t *)x + 4 * i);
        const uint32_t key = p->nan_key ? (uint32_t)p->nan_key[i] : 0x7fffffffu;
        copy[i] = (int32_t)((held << 1) > 0xff000000u ? key ^ ((0u - (key >> 31)) >> 1) : held);
    }
    return copy;
}

#endif
