/* SPDX-License-Identifier: 0BSD */
/* tc_signal_auto_scale_s16 with two samples per word. Same results; y may be x. No scratch.
 *
 * The bits of the largest are those of all magnitudes or'ed, unless one is -32768: then samples are gone through one by one.
 */
#ifndef TC_SIGNAL_AUTO_SCALE_S16_DSP_H
#define TC_SIGNAL_AUTO_SCALE_S16_DSP_H

#include "tc_signal_dsp.h"
#include "tc_signal_most.h"

static int32_t tc_signal_scale_pairs(const int16_t *x, int32_t n, int32_t micro)
{
    const int32_t fours = n & ~3;
    uint32_t both = 0;

    for (int32_t i = 0; i < fours; i += 4) {
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(x + i));
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(x + i + 2));
    }
    for (int32_t i = fours; i < n; i++) {
        both |= (uint32_t)(x[i] < 0 ? -x[i] : x[i]) & 0xffff;
    }
    both = (both | both >> 16) & 0xffff;
    if (both >> 15 != 0) {
        return tc_signal_scale_s16(x, n, micro);
    }
    return both != 0 || micro ? 15 - tc_signal_bits(both) : 0;
}

static void tc_signal_auto_scale_s16_dsp(const int16_t *x, int32_t n, int32_t micro, int16_t *y, int32_t *scale)
{
    const int32_t s = tc_signal_scale_pairs(x, n, micro);

    for (int32_t i = 0; i < (n & ~1); i += 2) {
        const uint32_t pair = tc_load_word(x + i);
        tc_store_word(y + i, ((pair & 0xffff0000u) << s) | ((pair << s) & 0xffffu));
    }
    if ((n & 1) != 0) {
        y[n - 1] = (int16_t)(uint16_t)((uint32_t)x[n - 1] << s);
    }
    *scale = s;
}

#endif
