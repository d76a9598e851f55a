/* SPDX-License-Identifier: 0BSD */
/* tc_motion.h with the peaks of a transform of windows whose length is a power of two.
 *
 * work [window + 2]: scratch. y [axes][n + 2 peaks], may not overlap x.
 */
#ifndef TC_MOTION_SPECTRUM_S16_H
#define TC_MOTION_SPECTRUM_S16_H

#include "tc_motion_spectrum.h"
#include "tc_spectrum_transform.h"

static void tc_motion_spectrum_s16(const tc_motion_spectrum_s16_t *p, const int16_t *x, const int16_t *held,
                                   void *work, int32_t *y)
{
    int32_t *const z = (int32_t *)work;

    for (int32_t axis = 0; axis < p->of.axes; axis++) {
        y = tc_motion_axis(&p->of, x, held, axis, z, y);
        tc_spectrum_transform(p->transform.twiddles, p->transform.split, p->transform.half,
                              p->transform.radix, z);
        y = tc_motion_spectrum_peaks(z, p->transform.half, p->of.peaks, y);
    }
}

#endif
