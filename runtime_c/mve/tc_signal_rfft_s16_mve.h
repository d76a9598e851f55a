/* SPDX-License-Identifier: 0BSD */
/* tc_signal_rfft_s16_dsp with Helium; twiddles as tc_mve_rfft.h has them. Same results; half is at least 16.
 */
#ifndef TC_SIGNAL_RFFT_S16_MVE_H
#define TC_SIGNAL_RFFT_S16_MVE_H

#include "tc_mve_rfft.h"

static void tc_signal_rfft_s16_mve(const tc_rfft_words_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t line = 0; line < p->lines; line++, x += p->samples, y += 2 * p->half + 2) {
        const int16_t *t = p->twiddles, *const end = y + 2 * p->half;
        int32_t m = p->radix;
        tc_mve_rfft_first(p, x, y);
        if (m == 2) {
            tc_mve_rfft_step_of_two(t, y, end);
            t += TC_MVE_RFFT_TURNS;
            m = 8;
        }
        for (; m < p->half; t += TC_MVE_RFFT_TURNS / 4 * m, m *= 4) {
            tc_mve_rfft_step(t, m, y, end);
        }
        tc_rfft_ends(p->half, y);
        tc_mve_rfft_pairs(p->split, y + 2, y + 2 * p->half - 2);
    }
}

#endif
