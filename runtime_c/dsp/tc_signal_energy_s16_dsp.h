/* SPDX-License-Identifier: 0BSD */
/* tc_signal_energy_s16 with one multiplication per bin. Same results; y may be x. No scratch. */
#ifndef TC_SIGNAL_ENERGY_S16_DSP_H
#define TC_SIGNAL_ENERGY_S16_DSP_H

#include "tc_signal_dsp.h"

static inline void tc_signal_energy_of(const int16_t *x, uint32_t *y)
{
    const int32_t pair = (int32_t)tc_load_word(x);
    tc_store_word(y, (uint32_t)tc_smuad(pair, pair));
}

static void tc_signal_energy_s16_dsp(const int16_t *x, int32_t bins, int32_t start, int32_t end, uint32_t *y)
{
    uint32_t *const from = y + start, *const to = y + end, *const last = y + bins,
        *const fours = from + ((end - start) & ~3);

    for (; y < from; y++, x += 2) {
        tc_store_word(y, 0);
    }
    for (; y < fours; y += 4, x += 8) {
        tc_signal_energy_of(x, y);
        tc_signal_energy_of(x + 2, y + 1);
        tc_signal_energy_of(x + 4, y + 2);
        tc_signal_energy_of(x + 6, y + 3);
    }
    for (; y < to; y++, x += 2) {
        tc_signal_energy_of(x, y);
    }
    for (; y < last; y++) {
        tc_store_word(y, 0);
    }
}

#endif
