/* SPDX-License-Identifier: 0BSD */
/* tc_signal_energy_s16 with one multiplication per bin. Same results; y may be x. No scratch. */
#ifndef TC_SIGNAL_ENERGY_S16_DSP_H
#define TC_SIGNAL_ENERGY_S16_DSP_H

#include "tc_signal_dsp.h"

static void tc_signal_energy_s16_dsp(const int16_t *x, int32_t bins, int32_t start, int32_t end, uint32_t *y)
{
    for (int32_t i = 0; i < start; i++) {
        tc_store_word(y + i, 0);
    }
    for (int32_t i = start; i < end; i++) {
        const int32_t pair = (int32_t)tc_load_word(x + 2 * i);
        tc_store_word(y + i, (uint32_t)tc_smuad(pair, pair));
    }
    for (int32_t i = end; i < bins; i++) {
        tc_store_word(y + i, 0);
    }
}

#endif
