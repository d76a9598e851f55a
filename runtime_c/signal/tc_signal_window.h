/* SPDX-License-Identifier: 0BSD */
/* The parameters of both kernels of signal_window. */
#ifndef TC_SIGNAL_WINDOW_H
#define TC_SIGNAL_WINDOW_H

#include "tc_math.h"

typedef struct {
    const int16_t *window; /* [n] */
    int32_t n, first, begin, skip, lines, shift, wraps;
} tc_signal_window_s16_t;

#endif
