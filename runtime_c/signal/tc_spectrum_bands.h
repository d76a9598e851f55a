/* SPDX-License-Identifier: 0BSD */
/* The parameters of both kernels of spectrum_bands. */
#ifndef TC_SPECTRUM_BANDS_H
#define TC_SPECTRUM_BANDS_H

#include "tc_products.h"

typedef struct {
    const uint16_t *weights; /* band after band */
    const uint16_t *spans; /* [bands][2]: the first bin, how many */
    int32_t bands;
} tc_spectrum_bands_t;

#endif
