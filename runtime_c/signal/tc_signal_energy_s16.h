/* SPDX-License-Identifier: 0BSD */
/* y[i] = re^2 + im^2 of bin i of a spectrum, for start <= i < end; 0 for the others of `bins`. y may be x. No
 * scratch. */
#ifndef TC_SIGNAL_ENERGY_S16_H
#define TC_SIGNAL_ENERGY_S16_H

#include "tc_math.h"

static void tc_signal_energy_s16(const int16_t *x, int32_t bins, int32_t start, int32_t end, uint32_t *y)
{
    for (int32_t i = 0; i < bins; i++) {
        uint32_t sum = 0;
        if (i >= start && i < end) {
            const uint32_t pair = tc_load_word(x + 2 * i);
            const int32_t a = (int16_t)(uint16_t)pair, b = (int16_t)(uint16_t)(pair >> 16);
            sum = (uint32_t)(a * a) + (uint32_t)(b * b);
        }
        tc_store_word(y + i, sum);
    }
}

#endif
