/* SPDX-License-Identifier: 0BSD */
/* tc_stft_f32.h for transforms whose length is no power of two. */
#ifndef TC_STFT_MIXED_F32_H
#define TC_STFT_MIXED_F32_H

#include "tc_mixed_transform.h"
#include "tc_stft_frames_f32.h"

typedef struct {
    tc_stft_t of;
    tc_mixed_t mixed;
} tc_stft_mixed_t;

static void tc_stft_mixed_f32(const tc_stft_mixed_t *p, const float *x, void *scratch, float *y)
{
    int32_t *const bins = (int32_t *)scratch;
    const tc_spectrum_t spectrum = {0, p->of.twiddles, p->of.split, 0, 0, 0, 0, p->of.half, p->of.radix};

    for (int32_t line = 0; line < p->of.lines; line++, x += p->of.line) {
        for (int32_t frame = 0; frame < p->of.frames; frame++, y += 2 * p->of.half + 2) {
            const float *const from = x + frame * p->of.step;
            const int32_t k = tc_stft_scale(&p->of, from);
            if (k > 127) {
                tc_stft_nothing(&p->of, y);
                continue;
            }
            tc_stft_taper(&p->of, from, k, p->mixed.order, bins);
            tc_mixed_transform(&spectrum, &p->mixed, bins);
            tc_stft_put(&p->of, bins, k, y);
        }
    }
}

#endif
