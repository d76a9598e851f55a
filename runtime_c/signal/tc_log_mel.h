/* SPDX-License-Identifier: 0BSD */
/* tc_log_mel_frames.h with transforms of a power of two.
 *
 * x: samples, of which frame i takes 2 half from i * step on. scratch: 2 half + 2 numbers, and bands pairs of
 * words. y [frames][bands].
 */
#ifndef TC_LOG_MEL_H
#define TC_LOG_MEL_H

#include "tc_log_mel_frames.h"
#include "tc_spectrum_transform.h"

static void tc_log_mel(const tc_log_mel_t *p, const int16_t *x, void *scratch, int8_t *y)
{
    int32_t *const bins = (int32_t *)scratch;
    uint32_t *const sums = (uint32_t *)scratch + 2 * p->half + 2;
    tc_spectrum_t spectrum = tc_log_mel_spectrum(p);

    for (int32_t frame = 0; frame < p->frames; frame++, spectrum.begin += p->step, y += p->bands) {
        const int32_t scale = tc_spectrum_taper(&spectrum, x, x, bins);
        tc_spectrum_transform(p->twiddles, p->split, p->half, p->radix, bins);
        tc_log_mel_frame(p, bins, scale, sums, y);
    }
}

#endif
