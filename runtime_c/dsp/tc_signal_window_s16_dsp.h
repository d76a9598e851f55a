/* SPDX-License-Identifier: 0BSD */
/* tc_signal_window_s16 with two samples per word: n, first, begin and skip are even. Same results, y may be x
 * likewise. */
#ifndef TC_SIGNAL_WINDOW_S16_DSP_H
#define TC_SIGNAL_WINDOW_S16_DSP_H

#include "tc_signal_dsp.h"
#include "tc_signal_window_s16.h"

/* shift 12, nothing limited */
static inline int32_t tc_signal_windowed(const int16_t *x, const int16_t *w)
{
    const int32_t samples = (int32_t)tc_load_word(x), factors = (int32_t)tc_load_word(w);
    return tc_middles(tc_smulbb(samples, factors), tc_smultt(samples, factors));
}

static inline void tc_signal_window_twelve(const int16_t *x, const int16_t *w, int32_t n, int16_t *y)
{
    const int16_t *const end = w + (n & ~7);

    for (; w < end; x += 8, w += 8, y += 8) {
        tc_store_word(y, (uint32_t)tc_signal_windowed(x, w));
        tc_store_word(y + 2, (uint32_t)tc_signal_windowed(x + 2, w + 2));
        tc_store_word(y + 4, (uint32_t)tc_signal_windowed(x + 4, w + 4));
        tc_store_word(y + 6, (uint32_t)tc_signal_windowed(x + 6, w + 6));
    }
    for (int32_t i = 0; i < (n & 7); i += 2) {
        tc_store_word(y + i, (uint32_t)tc_signal_windowed(x + i, w + i));
    }
}

static inline void tc_signal_window_pairs(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                          int32_t wraps, int16_t *y)
{
    if (shift == 12 && wraps) {
        tc_signal_window_twelve(x, w, n, y);
        return;
    }
    for (int32_t i = 0; i < n; i += 2) {
        const int32_t samples = (int32_t)tc_load_word(x + i), factors = (int32_t)tc_load_word(w + i);
        int32_t low = tc_smulbb(samples, factors) >> shift, high = tc_smultt(samples, factors) >> shift;
        if (!wraps) {
            low = tc_ssat16(low);
            high = tc_ssat16(high);
        }
        tc_store_word(y + i, (uint32_t)tc_pkhbt(low, high));
    }
}

static void tc_signal_window_s16_dsp(const tc_signal_window_s16_t *p, const int16_t *x, const int16_t *held,
                                     int16_t *y)
{
    tc_signal_window_lines(p, x, held, y, tc_signal_window_pairs);
}

#endif
