/* SPDX-License-Identifier: 0BSD */
/* tc_signal_rfft_s16 with points as words. Same results. samples is even, half at least 8. y may not overlap
 * x. No scratch. */
#ifndef TC_SIGNAL_RFFT_S16_DSP_H
#define TC_SIGNAL_RFFT_S16_DSP_H

#include "tc_rfft_words.h"

static void tc_signal_rfft_s16_dsp(const tc_rfft_words_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t line = 0; line < p->lines; line++, x += p->samples, y += 2 * p->half + 2) {
        const int16_t *t = p->twiddles;
        tc_rfft_first(p, x, y);
        for (int32_t m = p->radix; m < p->half; m *= 4) {
            t = tc_rfft_step(t, p->half, m, y);
        }
        tc_rfft_ends(p->half, y);
        tc_rfft_pairs(p->split, y + 2, y + 2 * p->half - 2);
    }
}

#endif
