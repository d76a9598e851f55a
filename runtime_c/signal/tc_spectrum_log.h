/* SPDX-License-Identifier: 0BSD */
/* Logarithms to base 2 in 1 / 2^20: y = max(2^20 (log2(max(x + add * 2^(k s), 1)) - k s), least), k = power.
 *
 * x [n]: pairs of words, the low one first; add likewise, or null. *scale: s, of which the lowest 4 bits
 * count. y [n] may be x. No scratch.
 */
#ifndef TC_SPECTRUM_LOG_H
#define TC_SPECTRUM_LOG_H

#include "tc_signal_most.h"

typedef struct {
    const int32_t *table; /* [129]: 2^20 log2(1 + k / 128) */
    const int32_t *least; /* [n] */
    const uint32_t *add; /* [n][2] */
    int32_t n, power;
} tc_spectrum_log_t;

static inline int32_t tc_log2(const int32_t *table, uint32_t low, uint32_t high) /* not both 0 */
{
    const int32_t whole = high != 0 ? 32 + tc_signal_whole(high) : tc_signal_whole(low);
    const uint32_t top = high != 0 ? high : low, rest = high != 0 ? low : 0;
    const int32_t up = 31 - (whole & 31);
    const uint32_t fraction = (top << up | rest >> 1 >> (31 - up)) << 1 | (rest << up) >> 31;
    const int32_t *const step = table + (fraction >> 25);

    return whole * (1 << 20) + step[0] + (((step[1] - step[0]) * (int32_t)(fraction >> 9 & 0xffff)) >> 16);
}

static void tc_spectrum_log(const tc_spectrum_log_t *p, const uint32_t *x, const int32_t *scale, int32_t *y)
{
    const int32_t octaves = p->power * (*scale & 15);

    for (int32_t i = 0; i < p->n; i++) {
        uint64_t v = (uint64_t)x[2 * i + 1] << 32 | x[2 * i];
        int32_t log;
        if (p->add != 0) {
            v += ((uint64_t)p->add[2 * i + 1] << 32 | p->add[2 * i]) << octaves;
        }
        log = (v == 0 ? 0 : tc_log2(p->table, (uint32_t)v, (uint32_t)(v >> 32))) - octaves * (1 << 20);
        y[i] = log > p->least[i] ? log : p->least[i];
    }
}

#endif
