/* SPDX-License-Identifier: 0BSD */
/* Any function of one 8-bit input: y[i] = lut[x[i]], where x[i] counts as an unsigned byte.
 *
 * lut: 256 bytes; entries 0..127 are for inputs 0..127, entries 128..255 for -128..-1.
 * x, y: n bytes; y may be x. Unsigned tensors pass as well: only bytes move. No scratch.
 */
#ifndef TC_LUT_S8_H
#define TC_LUT_S8_H

#include "tc_math.h"

static void tc_lut_s8(const void *lut, const void *x, void *y, int32_t n)
{
    const uint8_t *table = (const uint8_t *)lut;
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i = 0; i < n; i++) {
        out[i] = table[in[i]];
    }
}

#endif
