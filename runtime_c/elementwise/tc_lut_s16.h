/* SPDX-License-Identifier: 0BSD */
/* A function of one int16 number by a table of 513 entries: 512 intervals of 128 steps from -32768 on,
 * interpolated.
 *
 *   y[i] = table[k] + ((table[k + 1] - table[k]) * (x[i] & 127) + 64 >> 7),  k = 256 + (x[i] >> 7)
 *
 * As TensorFlow Lite's LUTLookup has it. y may be x. No scratch.
 */
#ifndef TC_LUT_S16_H
#define TC_LUT_S16_H

#include "tc_math.h"

static void tc_lut_s16(const int16_t *table, const int16_t *x, int16_t *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int16_t *at = table + 256 + (x[i] >> 7);
        const int32_t slope = at[1] - at[0];
        y[i] = (int16_t)(at[0] + ((slope * (x[i] & 127) + 64) >> 7));
    }
}

#endif
