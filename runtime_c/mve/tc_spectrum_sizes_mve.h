/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_sizes.h with Helium; twiddles as tc_mve_transform.h has them. Same results. */
#ifndef TC_SPECTRUM_SIZES_MVE_H
#define TC_SPECTRUM_SIZES_MVE_H

#include "tc_spectrum_sizes_frames.h"
#include "tc_mve_taper.h"
#include "tc_mve_transform.h"

static void tc_spectrum_sizes_mve(const tc_spectrum_sizes_t *p, const int16_t *x, void *scratch, void *y)
{
    int32_t *const bins = (int32_t *)scratch;
    int8_t *to = (int8_t *)y;
    tc_spectrum_t spectrum = tc_spectrum_sizes_spectrum(p);

    for (int32_t line = 0; line < p->lines; line++, x += p->line) {
        spectrum.begin = 0;
        for (int32_t frame = 0; frame < p->frames; frame++, spectrum.begin += p->step) {
            const int32_t scale = tc_mve_taper(&spectrum, x, x, bins);
            tc_mve_transform(p->twiddles, p->split, p->half, p->radix, bins);
            tc_spectrum_sizes_frame(p, bins, scale, to);
            to += tc_spectrum_sizes_bytes(p);
        }
    }
}

#endif
