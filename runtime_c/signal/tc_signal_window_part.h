/* SPDX-License-Identifier: 0BSD */
/* A part of a line of signal_window, one sample after the other. */
#ifndef TC_SIGNAL_WINDOW_PART_H
#define TC_SIGNAL_WINDOW_PART_H

#include "tc_signal_window.h"

static inline void tc_signal_window_part_s16(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                             int32_t wraps, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = (x[i] * w[i]) >> shift;
        y[i] = (int16_t)(wraps ? v : tc_clamp(v, -32768, 32767));
    }
}

#endif
