/* SPDX-License-Identifier: 0BSD */
/* The parameters of both kernels of signal_filter_bank. */
#ifndef TC_SIGNAL_FILTER_BANK_H
#define TC_SIGNAL_FILTER_BANK_H

#include "tc_math.h"

typedef struct {
    const int16_t *weights; /* for each bin of each interval in turn: its weight, its unweight */
    const uint16_t *bands; /* [channels + 1][2]: first bin, number of bins */
    int32_t channels;
} tc_signal_filter_bank_t;

#endif
