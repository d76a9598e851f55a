/* SPDX-License-Identifier: 0BSD */
/* Gain control of n channels, then compression: tinyc/ops/signal_pcan.py has the formula. gains: 125 numbers.
 *
 * y may be x or noise. No scratch.
 */
#ifndef TC_SIGNAL_PCAN_U32_H
#define TC_SIGNAL_PCAN_U32_H

#include "tc_signal_most.h"

static inline int32_t tc_signal_gain(uint32_t noise, const int16_t *gains)
{
    int32_t octave, fraction, slope;
    uint32_t rise;

    if (noise <= 2) {
        return gains[noise];
    }
    octave = tc_signal_whole(noise);
    fraction = (int32_t)((noise << (32 - octave)) >> 22); /* ten bits below the highest */
    gains += 4 * octave - 2;
    slope = ((gains[2] * fraction) >> 5) + gains[1] * 32;
    rise = (uint32_t)slope * (uint32_t)fraction;
    return (int16_t)((((int32_t)rise + 16384) >> 15) + gains[0]);
}

static void tc_signal_pcan_u32(const uint32_t *x, const uint32_t *noise, const int16_t *gains, int32_t n,
                               int32_t snr_shift, uint32_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        const uint32_t gain = (uint32_t)tc_signal_gain(noise[i], gains);
        const uint32_t s = (uint32_t)(((uint64_t)x[i] * gain) >> snr_shift);
        y[i] = s < 8192 ? (s * s) >> 20 : (s >> 6) - 64;
    }
}

#endif
