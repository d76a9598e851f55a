/* SPDX-License-Identifier: 0BSD */
/* tc_signal_auto_scale_s16 with two samples per word. Same results; y may be x. No scratch.
 *
 * The bits of the largest are those of all magnitudes or'ed, unless one is -32768: then samples are gone
 * through one by one.
 */
#ifndef TC_SIGNAL_AUTO_SCALE_S16_DSP_H
#define TC_SIGNAL_AUTO_SCALE_S16_DSP_H

#include "tc_signal_dsp.h"
#include "tc_signal_most.h"

static int32_t tc_signal_scale_pairs(const int16_t *x, int32_t n, int32_t micro)
{
    const int16_t *const end = x + (n & ~7), *at = x;
    uint32_t both = 0;

    for (; at < end; at += 8) {
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(at));
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(at + 2));
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(at + 4));
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(at + 6));
    }
    for (int32_t i = 0; i < (n & 7); i++) {
        both |= (uint32_t)(at[i] < 0 ? -at[i] : at[i]) & 0xffff;
    }
    both = (both | both >> 16) & 0xffff;
    if (both >> 15 != 0) {
        return tc_signal_scale_s16(x, n, micro);
    }
    return both != 0 || micro ? 15 - tc_signal_bits(both) : 0;
}

/* Both samples times 2^s, modulo 2^16. mask: all bits but the lowest s of the upper half, where those of the
 * lower end up. */
static inline uint32_t tc_signal_pair_times(const int16_t *x, int32_t s, uint32_t mask)
{
    return (tc_load_word(x) << s) & mask;
}

static void tc_signal_auto_scale_s16_dsp(const int16_t *x, int32_t n, int32_t micro, int16_t *y,
                                         int32_t *scale)
{
    const int32_t s = tc_signal_scale_pairs(x, n, micro);
    const uint32_t mask = 0xffffffffu - (0x10000u << s) + 0x10000u;
    const int16_t *const end = x + (n & ~7);

    for (; x < end; x += 8, y += 8) {
        tc_store_word(y, tc_signal_pair_times(x, s, mask));
        tc_store_word(y + 2, tc_signal_pair_times(x + 2, s, mask));
        tc_store_word(y + 4, tc_signal_pair_times(x + 4, s, mask));
        tc_store_word(y + 6, tc_signal_pair_times(x + 6, s, mask));
    }
    for (int32_t i = 0; i < (n & 7); i++) {
        y[i] = (int16_t)(uint16_t)((uint32_t)x[i] << s);
    }
    *scale = s;
}

#endif
