/* SPDX-License-Identifier: 0BSD */
/* y = scale * ln(x * 2^correction), rounded, at most 32767; 0 where x * 2^correction (modulo 2^32) is at most
 * 1.
 *
 * table: 2^16 (log2(1 + k / 128) - k / 128) for k = 0 .. 128, and a 0. y may be x. No scratch.
 */
#ifndef TC_SIGNAL_LOG_U32_H
#define TC_SIGNAL_LOG_U32_H

#include "tc_signal_most.h"

static inline uint32_t tc_signal_ln(uint32_t v, const uint16_t *table) /* in 1/2^16; v > 1 */
{
    const int32_t whole = tc_signal_whole(v);
    /* of what is below the highest bit; whole > 0 */
    const int32_t fraction = (int32_t)((v << (32 - whole)) >> 16);
    const int32_t segment = fraction >> 9, low = table[segment], high = table[segment + 1];
    const int32_t between = ((high - low) * (fraction & 511)) >> 16;
    const uint32_t log2 = ((uint32_t)whole << 16) + (uint32_t)(fraction + low + between);

    return (uint32_t)(((uint64_t)45426 * log2 + 32768) >> 16);
}

static void tc_signal_log_u32(const uint32_t *x, const uint16_t *table, int32_t n, int32_t scale,
                              int32_t correction, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        const uint32_t v = correction < 0 ? x[i] >> -correction : x[i] << correction;
        uint32_t log = 0;
        if (v > 1) {
            log = ((uint32_t)scale * tc_signal_ln(v, table) + 32768) >> 16;
        }
        y[i] = (int16_t)(log < 32767 ? log : 32767);
    }
}

#endif
