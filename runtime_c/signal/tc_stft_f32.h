/* SPDX-License-Identifier: 0BSD */
/* tc_stft_frames_f32.h with transforms of a power of two.
 *
 * x: lines of samples, one after the other, of which frame i takes 2 half from i * step on. scratch: 2 half
 * + 2 numbers. y [lines][frames][half + 1][2].
 */
#ifndef TC_STFT_F32_H
#define TC_STFT_F32_H

#include "tc_stft_frames_f32.h"
#include "tc_spectrum_transform.h"

static void tc_stft_f32(const tc_stft_t *p, const float *x, void *scratch, float *y)
{
    int32_t *const bins = (int32_t *)scratch;

    for (int32_t line = 0; line < p->lines; line++, x += p->line) {
        for (int32_t frame = 0; frame < p->frames; frame++, y += 2 * p->half + 2) {
            const float *const from = x + frame * p->step;
            const int32_t k = tc_stft_scale(p, from);
            if (k > 127) {
                tc_stft_nothing(p, y);
                continue;
            }
            tc_stft_taper(p, from, k, 0, bins);
            tc_spectrum_transform(p->twiddles, p->split, p->half, p->radix, bins);
            tc_stft_put(p, bins, k, y);
        }
    }
}

#endif
