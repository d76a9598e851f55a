/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_sizes.h for transforms whose length is no power of two. */
#ifndef TC_SPECTRUM_SIZES_MIXED_H
#define TC_SPECTRUM_SIZES_MIXED_H

#include "tc_spectrum_sizes_frames.h"
#include "tc_mixed_taper.h"
#include "tc_mixed_transform.h"

typedef struct {
    tc_spectrum_sizes_t of;
    tc_mixed_t mixed;
} tc_spectrum_sizes_mixed_t;

static void tc_spectrum_sizes_mixed(const tc_spectrum_sizes_mixed_t *p, const int16_t *x, void *scratch,
                                    void *y)
{
    int32_t *const bins = (int32_t *)scratch;
    int8_t *to = (int8_t *)y;
    tc_spectrum_t spectrum = tc_spectrum_sizes_spectrum(&p->of);

    for (int32_t line = 0; line < p->of.lines; line++, x += p->of.line) {
        spectrum.begin = 0;
        for (int32_t frame = 0; frame < p->of.frames; frame++, spectrum.begin += p->of.step) {
            const int32_t scale = tc_mixed_taper(&spectrum, p->mixed.order, x, x, bins);
            tc_mixed_transform(&spectrum, &p->mixed, bins);
            tc_spectrum_sizes_frame(&p->of, bins, scale, to);
            to += tc_spectrum_sizes_bytes(&p->of);
        }
    }
}

#endif
