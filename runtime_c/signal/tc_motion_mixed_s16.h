/* SPDX-License-Identifier: 0BSD */
/* tc_motion.h with the peaks of a transform of windows of other lengths.
 *
 * work [window + 2]: scratch. y [axes][n + 2 peaks], may not overlap x.
 */
#ifndef TC_MOTION_MIXED_S16_H
#define TC_MOTION_MIXED_S16_H

#include "tc_mixed_transform.h"
#include "tc_motion.h"

typedef struct {
    tc_motion_s16_t of;
    tc_spectrum_t transform; /* its tables and sizes */
    tc_mixed_t mixed;
} tc_motion_mixed_s16_t;

static void tc_motion_mixed_s16(const tc_motion_mixed_s16_t *p, const int16_t *x, const int16_t *held,
                                void *work, int32_t *y)
{
    int32_t *const z = (int32_t *)work;

    for (int32_t axis = 0; axis < p->of.axes; axis++) {
        y = tc_motion_axis(&p->of, x, held, axis, z, y);
        tc_mixed_transform(&p->transform, &p->mixed, z);
        y = tc_motion_spectrum_peaks(z, p->transform.half, p->of.peaks, y);
    }
}

#endif
