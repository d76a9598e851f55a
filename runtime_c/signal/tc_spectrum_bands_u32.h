/* SPDX-License-Identifier: 0BSD */
/* Sums of magnitudes times weights. y [bands]: pairs of words, the low one first; it may not overlap x. No
 * scratch. */
#ifndef TC_SPECTRUM_BANDS_U32_H
#define TC_SPECTRUM_BANDS_U32_H

#include "tc_spectrum_bands.h"

static void tc_spectrum_bands_u32(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    const uint16_t *w = p->weights, *span = p->spans;

    for (int32_t band = 0; band < p->bands; band++, span += 2, y += 2) {
        const uint32_t *bin = x + span[0];
        const uint16_t *const end = w + span[1];
        uint64_t sum = 0;
        for (; w < end; w++, bin++) {
            sum += tc_times_short(*bin, *w);
        }
        y[0] = (uint32_t)sum;
        y[1] = (uint32_t)(sum >> 32);
    }
}

#endif
