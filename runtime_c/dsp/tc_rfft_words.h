/* SPDX-License-Identifier: 0BSD */
/* The steps of tc_fourier_s16.h for int16 with points as words, in the same order, so the same results.
 *
 * A quarter and a half of a point are products with twice the factor of tc_fourier_s16.h, whose upper halves
 * are the results. Values that were divided are not turned by 1, which would leave them as they are.
 */
#ifndef TC_RFFT_WORDS_H
#define TC_RFFT_WORDS_H

#include "tc_signal_dsp.h"

typedef struct {
    const int16_t *twiddles; /* of each step but the first, in the order of their use */
    const int16_t *split; /* [half / 2][2] */
    const uint16_t *order; /* [half / radix]: the first point of each butterfly of the first step */
    int32_t half, radix;
    int32_t samples, lines;
} tc_rfft_words_t;

static inline int32_t tc_rfft_point(const int16_t *x, int32_t at)
{
    return (int32_t)tc_load_word(x + 2 * at);
}

static inline void tc_rfft_put(int16_t *y, int32_t at, int32_t point)
{
    tc_store_word(y + 2 * at, (uint32_t)point);
}

static inline int32_t tc_rfft_quarter(int32_t z)
{
    return tc_tops(tc_smlabb(z, 2 * 8191, 32768), tc_smlatb(z, 2 * 8191, 32768));
}

static inline int32_t tc_rfft_half(int32_t z)
{
    return tc_tops(tc_smlabb(z, 2 * 16383, 32768), tc_smlatb(z, 2 * 16383, 32768));
}

static inline int32_t tc_rfft_turned(int32_t z, int32_t t)
{
    return tc_products(tc_smlsd(z, t, 16384), tc_smladx(z, t, 16384));
}

/* Four parts -> points at z, z + m, z + 2 m, z + 3 m. */
TC_INLINE void tc_rfft_four(int32_t a, int32_t b, int32_t c, int32_t d, int16_t *z, int32_t m)
{
    const int32_t sum = tc_sadd16(a, c), difference = tc_ssub16(a, c);
    const int32_t both = tc_sadd16(b, d), apart = tc_ssub16(b, d);

    tc_rfft_put(z, 0, tc_sadd16(sum, both));
    tc_rfft_put(z, m, tc_ssax(difference, apart));
    tc_rfft_put(z, 2 * m, tc_ssub16(sum, both));
    tc_rfft_put(z, 3 * m, tc_sasx(difference, apart));
}

/* Points of x that lie beyond its end are 0. */
static inline int32_t tc_rfft_given(const int16_t *x, int32_t at, int32_t points)
{
    return at < points ? tc_rfft_point(x, at) : 0;
}

/* A butterfly of the first step: points at, at + rest ... of x. all: how many of them are in x for
 * certain. */
TC_INLINE void tc_rfft_begin(const int16_t *x, int32_t at, int32_t rest, int32_t points, int32_t all,
                             int16_t *z)
{
    const int32_t a = all > 0 ? tc_rfft_point(x, at) : tc_rfft_given(x, at, points);
    const int32_t b = all > 1 ? tc_rfft_point(x, at + rest) : tc_rfft_given(x, at + rest, points);
    const int32_t c = all > 2 ? tc_rfft_point(x, at + 2 * rest) : tc_rfft_given(x, at + 2 * rest, points);
    const int32_t d = all > 3 ? tc_rfft_point(x, at + 3 * rest) : tc_rfft_given(x, at + 3 * rest, points);

    tc_rfft_four(tc_rfft_quarter(a), tc_rfft_quarter(b), tc_rfft_quarter(c), tc_rfft_quarter(d), z, 1);
}

static inline void tc_rfft_first(const tc_rfft_words_t *p, const int16_t *x, int16_t *z)
{
    const int32_t points = p->samples / 2, rest = p->half / p->radix;
    const uint16_t *at = p->order, *const end = at + rest;

    if (p->radix == 4 && points == p->half) {
        for (; at < end; at++, z += 8) {
            tc_rfft_begin(x, *at, rest, points, 4, z);
        }
    } else if (p->radix == 4 && points >= 3 * rest) {
        for (; at < end; at++, z += 8) {
            tc_rfft_begin(x, *at, rest, points, 3, z);
        }
    } else if (p->radix == 4) {
        for (; at < end; at++, z += 8) {
            tc_rfft_begin(x, *at, rest, points, 0, z);
        }
    } else {
        for (; at < end; at++, z += 4) {
            const int32_t a = tc_rfft_half(tc_rfft_given(x, *at, points));
            const int32_t b = tc_rfft_half(tc_rfft_given(x, *at + rest, points));
            tc_rfft_put(z, 0, tc_sadd16(a, b));
            tc_rfft_put(z, 1, tc_ssub16(a, b));
        }
    }
}

/* Points of four parts, m apart, that are turned and combined. */
TC_INLINE void tc_rfft_turn_four(int16_t *z, int32_t m, int32_t one, int32_t two, int32_t three)
{
    const int32_t a = tc_rfft_quarter(tc_rfft_point(z, 0));
    const int32_t b = tc_rfft_turned(tc_rfft_quarter(tc_rfft_point(z, m)), one);
    const int32_t c = tc_rfft_turned(tc_rfft_quarter(tc_rfft_point(z, 2 * m)), two);
    const int32_t d = tc_rfft_turned(tc_rfft_quarter(tc_rfft_point(z, 3 * m)), three);

    tc_rfft_four(a, b, c, d, z, m);
}

/* A step of radix 4 in place. t: for k = 1 .. m - 1 those of points k, 2 k and 3 k. Returns their end. */
static inline const int16_t *tc_rfft_step(const int16_t *t, int32_t half, int32_t m, int16_t *z)
{
    int16_t *const end = z + 2 * half;

    for (int16_t *at = z; at < end; at += 8 * m) {
        const int32_t a = tc_rfft_point(at, 0), b = tc_rfft_point(at, m);
        const int32_t c = tc_rfft_point(at, 2 * m), d = tc_rfft_point(at, 3 * m);
        tc_rfft_four(tc_rfft_quarter(a), tc_rfft_quarter(b), tc_rfft_quarter(c), tc_rfft_quarter(d), at, m);
    }
    if (4 * m == half) { /* one butterfly for each of the twiddles */
        for (int16_t *at = z + 2; at < z + 2 * m; at += 2, t += 6) {
            tc_rfft_turn_four(at, m, tc_rfft_point(t, 0), tc_rfft_point(t, 1), tc_rfft_point(t, 2));
        }
        return t;
    }
    for (int32_t k = 1; k < m; k++, t += 6) {
        const int32_t one = tc_rfft_point(t, 0), two = tc_rfft_point(t, 1), three = tc_rfft_point(t, 2);
        for (int16_t *at = z + 2 * k; at < end; at += 8 * m) {
            tc_rfft_turn_four(at, m, one, two, three);
        }
    }
    return t;
}

/* From the transform of even and odd samples to that of all, in place: half points become half + 1. Here the
 * first and the last of them. */
static inline void tc_rfft_ends(int32_t half, int16_t *y)
{
    const int32_t zero = tc_rfft_half(tc_rfft_point(y, 0));

    tc_rfft_put(y, 0, (zero + (zero >> 16)) & 0xffff);
    tc_rfft_put(y, half, (zero - (zero >> 16)) & 0xffff);
}

/* And pairs of the others, from both ends to the middle. */
static inline void tc_rfft_pairs(const int16_t *t, int16_t *low, int16_t *high)
{
    for (; low <= high; low += 2, high -= 2, t += 2) {
        const int32_t a = tc_rfft_half(tc_rfft_point(low, 0)), b = tc_rfft_point(high, 0);
        const int32_t conjugate = tc_tops(tc_smlabb(b, 2 * 16383, 32768), tc_smlatb(tc_ssub16(0, b),
            2 * 16383, 32768));
        const int32_t sum = tc_sadd16(a, conjugate), turned = tc_rfft_turned(tc_ssub16(a, conjugate),
            tc_rfft_point(t, 0));
        tc_rfft_put(low, 0, tc_shadd16(sum, turned));
        tc_rfft_put(high, 0, tc_ends(tc_shsub16(sum, turned), tc_shsub16(turned, sum)));
    }
}

#endif
