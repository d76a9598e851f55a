/* SPDX-License-Identifier: 0BSD */
/* int8 as uint8 and back: y[i] = x[i] with its top bit turned over, which adds or takes 128. y may be x. No
 * scratch. */
#ifndef TC_FLIP_S8_H
#define TC_FLIP_S8_H

#include "tc_math.h"

static void tc_flip_s8(const void *x, void *y, int32_t n)
{
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = (uint8_t *)y;

    for (int32_t i = 0; i < n; i++) {
        out[i] = in[i] ^ 0x80u;
    }
}

#endif
