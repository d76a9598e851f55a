/* SPDX-License-Identifier: 0BSD */
/* tc_motion.h with a sum over the window for each bin of the spectrum, where peaks are asked for.
 *
 * work [window]: scratch. y [axes][n + 2 peaks], may not overlap x.
 */
#ifndef TC_MOTION_S16_H
#define TC_MOTION_S16_H

#include "tc_motion.h"

static inline int32_t *tc_motion_summed_peaks(const tc_motion_s16_t *p, const int32_t *z, int32_t *y)
{
    tc_motion_peaks_t best;

    best.found = 0;
    for (int32_t bin = 1; p->peaks > 0 && bin <= (p->window - 1) / 2; bin++) {
        int64_t re = 0, im = 0;
        int32_t turn = 0;
        for (int32_t i = 0; i < p->window; i++) {
            re += (int64_t)z[i] * p->cosine[turn];
            im += (int64_t)z[i] * p->sine[turn];
            turn += bin;
            turn -= turn >= p->window ? p->window : 0;
        }
        tc_motion_peak(&best, p->peaks, bin, (int32_t)(re >> p->shift), (int32_t)(im >> p->shift));
    }
    return tc_motion_write_peaks(&best, y);
}

static void tc_motion_s16(const tc_motion_s16_t *p, const int16_t *x, const int16_t *held, void *work,
                          int32_t *y)
{
    int32_t *const z = (int32_t *)work;

    for (int32_t axis = 0; axis < p->axes; axis++) {
        y = tc_motion_axis(p, x, held, axis, z, y);
        y = tc_motion_summed_peaks(p, z, y);
    }
}

#endif
