/* SPDX-License-Identifier: 0BSD */
/* What the kernels of signal_window share: their parameters, and a part of a line. */
#ifndef TC_SIGNAL_WINDOW_H
#define TC_SIGNAL_WINDOW_H

#include "tc_math.h"

typedef struct {
    const int16_t *window; /* [n] */
    int32_t n, first, begin, skip, lines, shift, wraps;
} tc_signal_window_s16_t;

/* One sample after the other. */
static inline void tc_signal_window_part_s16(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                             int32_t wraps, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = (x[i] * w[i]) >> shift;
        y[i] = (int16_t)(wraps ? v : tc_clamp(v, -32768, 32767));
    }
}

#endif
