/* SPDX-License-Identifier: 0BSD */
/* A function of one 8-bit input for each channel: y[i][c] = lut[c][x[i][c]], where x[i][c] counts as an
 * unsigned byte.
 *
 * lut [channels][256]: entries 0..127 are for inputs 0..127, entries 128..255 for -128..-1. x, y: n *
 * channels bytes; y may be x. Unsigned tensors pass as well: only bytes move. No scratch.
 */
#ifndef TC_LUT_CHANNELS_S8_H
#define TC_LUT_CHANNELS_S8_H

#include "tc_math.h"

static void tc_lut_channels_s8(const void *lut, const void *x, void *y, int32_t n, int32_t channels)
{
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i = 0; i < n; i++) {
        const uint8_t *table = (const uint8_t *)lut;
        for (int32_t c = 0; c < channels; c++, table += 256) {
            *out++ = table[*in++];
        }
    }
}

#endif
