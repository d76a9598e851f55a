/* SPDX-License-Identifier: 0BSD */
/* y = sqrt(x), int16 in and out, zero points 0; of negative x the largest.
 *
 *   n = min(x * mult >> shift, 2^32 - 1)       4 * x * x_scale / y_scale^2
 *   y = min((floor(sqrt(n)) + 1) >> 1, 32767)
 *
 * mult < 2^31, shift in [1, 62]. y may be x. No scratch.
 */
#ifndef TC_ROOT_S16_H
#define TC_ROOT_S16_H

#include "tc_math.h"

typedef struct {
    int32_t mult, shift;
    int32_t n;
} tc_root_s16_t;

/* floor(sqrt(v)), a bit at a time. */
static inline uint32_t tc_root_s16_floor(uint32_t v)
{
    uint32_t root = 0;

    for (uint32_t bit = (uint32_t)1 << 30; bit > 0; bit >>= 2) {
        const uint32_t more = root + bit;
        root >>= 1;
        if (v >= more) {
            v -= more;
            root += bit;
        }
    }
    return root;
}

static inline int32_t tc_root_s16_element(const tc_root_s16_t *p, int32_t x)
{
    const int64_t n = (int64_t)x * p->mult >> p->shift;
    return x < 0 ? 32767 : tc_clamp((int32_t)((tc_root_s16_floor(n > (int64_t)UINT32_MAX ? UINT32_MAX
                                                                 : (uint32_t)n) + 1u) >> 1), 0, 32767);
}

static void tc_root_s16(const tc_root_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = (int16_t)tc_root_s16_element(p, x[i]);
    }
}

#endif
