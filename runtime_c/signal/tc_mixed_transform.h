/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_transform.h for numbers of points with odd prime factors, up to 13: steps of an odd radix p
 * behind those of 4, or alone.
 *
 * Of parts a_0 .. a_(p - 1) the points are, with theta = 2 pi j k / p and sums over j = 1 .. (p - 1) / 2,
 *   a_0 + sum (a_j + a_(p-j)) cos theta -+ i sum (a_j - a_(p-j)) sin theta,  k and p - k.
 * The first step sums only; all others turn their parts by twiddles that are over the radix.
 */
#ifndef TC_MIXED_TRANSFORM_H
#define TC_MIXED_TRANSFORM_H

#include "tc_spectrum_taper.h"
#include "tc_spectrum_transform.h"

#define TC_MIXED_PAIRS 6 /* (13 - 1) / 2 */

typedef struct {
    /* [..][2]: of each odd step cosines and sines of turns by k / p, k = 1 .. p - 1; for k = 0 2^32 / p, 0 */
    const int32_t *roots;
    const uint16_t *order; /* [half]: at which number of the result each point begins */
    const int8_t *radixes; /* of all steps */
    int32_t steps;
} tc_mixed_t;

/* Points of p parts, m numbers apart, in place. */
TC_INLINE void tc_mixed_points(int32_t p, const int32_t *roots, int32_t *z, int32_t m)
{
    const int32_t re = z[0], im = z[1];
    int32_t both[TC_MIXED_PAIRS][2], apart[TC_MIXED_PAIRS][2]; /* shifted up by 2 */
    int32_t sum_re = re, sum_im = im;

    for (int32_t j = 1; j < (p + 1) / 2; j++) {
        const int32_t *const a = z + j * m, *const b = z + (p - j) * m;
        sum_re += a[0] + b[0];
        sum_im += a[1] + b[1];
        both[j - 1][0] = (a[0] + b[0]) * 4;
        both[j - 1][1] = (a[1] + b[1]) * 4;
        apart[j - 1][0] = (a[0] - b[0]) * 4;
        apart[j - 1][1] = (a[1] - b[1]) * 4;
    }
    z[0] = sum_re;
    z[1] = sum_im;
    for (int32_t k = 1; k < (p + 1) / 2; k++) {
        int32_t even_re = re, even_im = im, odd_re = 0, odd_im = 0;
        int32_t *const first = z + k * m, *const second = z + (p - k) * m;
        for (int32_t j = 1, turn = k; j < (p + 1) / 2; j++, turn += k) {
            const int32_t *root;
            turn -= turn >= p ? p : 0;
            root = roots + 2 * turn;
            even_re = tc_plus_upper(even_re, both[j - 1][0], root[0]);
            even_im = tc_plus_upper(even_im, both[j - 1][1], root[0]);
            odd_re = tc_plus_upper(odd_re, apart[j - 1][0], root[1]);
            odd_im = tc_plus_upper(odd_im, apart[j - 1][1], root[1]);
        }
        first[0] = even_re + odd_im;
        first[1] = even_im - odd_re;
        second[0] = even_re - odd_im;
        second[1] = even_im + odd_re;
    }
}

/* A step of radix p that combines parts of m numbers, block after block. */
TC_INLINE void tc_mixed_step(int32_t p, const int32_t *roots, const int32_t *twiddles, int32_t m, int32_t *z,
                             const int32_t *end)
{
    const int32_t share = roots[0];

    for (; z < end; z += p * m) {
        const int32_t *t = twiddles;
        for (int32_t k = 0; k < m; k += 2) {
            int32_t *const at = z + k;
            at[0] = tc_upper(at[0], share);
            at[1] = tc_upper(at[1], share);
            for (int32_t j = m; j < p * m; j += m) {
                if (k == 0) {
                    at[j] = tc_upper(at[j], share);
                    at[j + 1] = tc_upper(at[j + 1], share);
                } else {
                    const tc_point_t turned = tc_point_turned(at[j], at[j + 1], t);
                    at[j] = turned.re;
                    at[j + 1] = turned.im;
                    t += 2;
                }
            }
            tc_mixed_points(p, roots, at, m);
        }
    }
}

static inline void tc_mixed_first(int32_t p, const int32_t *roots, int32_t *z, const int32_t *end)
{
    if (p % 2 == 0) {
        tc_transform_first(p, z, end);
        return;
    }
    for (; z < end; z += 2 * p) {
        tc_mixed_points(p, roots, z, 2);
    }
}

/* y [2 half + 2]: points -> bins. p->twiddles: of each step but the first, for k = 1 .. m - 1, those of
 * points k of all parts but part 0. */
static inline void tc_mixed_transform(const tc_spectrum_t *p, const tc_mixed_t *mixed, int32_t *y)
{
    const int32_t *twiddles = p->twiddles, *roots = mixed->roots;
    int32_t *const end = y + 2 * p->half;
    int32_t m = 2 * mixed->radixes[0];

    tc_mixed_first(mixed->radixes[0], roots, y, end);
    for (int32_t step = 1; step < mixed->steps; step++) {
        const int32_t before = mixed->radixes[step - 1], radix = mixed->radixes[step];
        roots += before % 2 != 0 ? 2 * before : 0;
        if (radix == 4) {
            tc_transform_step(twiddles, m, y, end);
        } else if (radix == 3) {
            tc_mixed_step(3, roots, twiddles, m, y, end);
        } else if (radix == 5) {
            tc_mixed_step(5, roots, twiddles, m, y, end);
        } else {
            tc_mixed_step(radix, roots, twiddles, m, y, end);
        }
        twiddles += (radix - 1) * (m - 2);
        m *= radix;
    }
    tc_transform_split(p->split, p->half, y);
}

#endif
