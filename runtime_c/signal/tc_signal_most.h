/* SPDX-License-Identifier: 0BSD */
/* The largest of n samples without its sign, and how far all can be shifted to the left.
 *
 * In 16 bits, one sample after the other: -(-32768) is -32768, less than all, so it makes the search begin
 * anew, and later samples count that are greater or whose opposite is.
 */
#ifndef TC_SIGNAL_MOST_H
#define TC_SIGNAL_MOST_H

#include "tc_math.h"

static inline int32_t tc_signal_bits(uint32_t v) /* position of the highest set bit, from 1; of 0: 0 */
{
#if TC_GNU
    return v == 0 ? 0 : 32 - __builtin_clz(v);
#else
    int32_t bits = 0;
    for (; v != 0; v >>= 1) {
        bits++;
    }
    return bits;
#endif
}

/* The place of the highest set bit of v > 0, from 0. */
static inline int32_t tc_signal_whole(uint32_t v)
{
#if TC_GNU
    return 31 - __builtin_clz(v);
#else
    return tc_signal_bits(v) - 1;
#endif
}

static inline int32_t tc_signal_most_s16(const int16_t *x, int32_t n, int32_t micro)
{
    int32_t most = 0;

    for (int32_t i = 0; i < n; i++) {
        const int32_t v = x[i], opposite = -v;
        if (v > most) {
            most = v;
        } else if (opposite == 32768) {
            most = micro ? most : -32768;
        } else if (opposite > most) {
            most = opposite;
        }
    }
    return most;
}

static inline int32_t tc_signal_scale_s16(const int16_t *x, int32_t n, int32_t micro)
{
    const int32_t most = tc_signal_most_s16(x, n, micro);
    return most > 0 ? 15 - tc_signal_bits((uint32_t)most) : micro ? 15 : 0;
}

#endif
