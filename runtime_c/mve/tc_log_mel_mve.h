/* SPDX-License-Identifier: 0BSD */
/* tc_log_mel.h with Helium; twiddles as tc_mve_transform.h has them. Same results. */
#ifndef TC_LOG_MEL_MVE_H
#define TC_LOG_MEL_MVE_H

#include "tc_log_mel_frames.h"
#include "tc_mve_taper.h"
#include "tc_mve_transform.h"
#include "tc_spectrum_bands_u32_mve.h"
#include "tc_spectrum_bands_u64_mve.h"

static inline void tc_log_mel_frame_mve(const tc_log_mel_t *p, int32_t *bins, int32_t scale, uint32_t *sums,
                                        int8_t *y)
{
    const uint32_t *const sizes = tc_log_mel_sizes(p, bins);
    const tc_spectrum_bands_t bands = tc_log_mel_bands(p);

    if (p->power == 1) {
        tc_spectrum_bands_u32_mve(&bands, sizes, sums);
    } else {
        tc_spectrum_bands_u64_mve(&bands, sizes, sums);
    }
    tc_log_mel_logs(p, sums, scale, y);
}

static void tc_log_mel_mve(const tc_log_mel_t *p, const int16_t *x, void *scratch, int8_t *y)
{
    int32_t *const bins = (int32_t *)scratch;
    uint32_t *const sums = (uint32_t *)scratch + 2 * p->half + 2;
    tc_spectrum_t spectrum = tc_log_mel_spectrum(p);

    for (int32_t frame = 0; frame < p->frames; frame++, spectrum.begin += p->step, y += p->bands) {
        const int32_t scale = tc_mve_taper(&spectrum, x, x, bins);
        tc_mve_transform(p->twiddles, p->split, p->half, p->radix, bins);
        tc_log_mel_frame_mve(p, bins, scale, sums, y);
    }
}

#endif
