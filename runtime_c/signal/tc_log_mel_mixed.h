/* SPDX-License-Identifier: 0BSD */
/* tc_log_mel.h for transforms whose length is no power of two. */
#ifndef TC_LOG_MEL_MIXED_H
#define TC_LOG_MEL_MIXED_H

#include "tc_log_mel_frames.h"
#include "tc_mixed_taper.h"
#include "tc_mixed_transform.h"

typedef struct {
    tc_log_mel_t of;
    tc_mixed_t mixed;
} tc_log_mel_mixed_t;

static void tc_log_mel_mixed(const tc_log_mel_mixed_t *p, const int16_t *x, void *scratch, int8_t *y)
{
    int32_t *const bins = (int32_t *)scratch;
    uint32_t *const sums = (uint32_t *)scratch + 2 * p->of.half + 2;
    tc_spectrum_t spectrum = tc_log_mel_spectrum(&p->of);

    for (int32_t frame = 0; frame < p->of.frames; frame++, spectrum.begin += p->of.step, y += p->of.bands) {
        const int32_t scale = tc_mixed_taper(&spectrum, p->mixed.order, x, x, bins);
        tc_mixed_transform(&spectrum, &p->mixed, bins);
        tc_log_mel_frame(&p->of, bins, scale, sums, y);
    }
}

#endif
