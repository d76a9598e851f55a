/* SPDX-License-Identifier: 0BSD */
/* The features of `held` before and those of this frame side by side where that is due, else 0.
 *
 * due: frames until an output, this one included; 0: this is the first frame, and stands for those before it.
 * `right` frames come after the one that an output is for, `step` frames lie between two. after may be
 * before, next may be due; y may overlap nothing. No scratch.
 */
#ifndef TC_SIGNAL_STACKER_S16_H
#define TC_SIGNAL_STACKER_S16_H

#include "tc_signal_history.h"

typedef struct {
    int32_t channels, held, right, step; /* held: a multiple of channels */
} tc_signal_stacker_s16_t;

/* copy: what copies frames. */
TC_INLINE void tc_signal_stacker_s16_by(const tc_signal_stacker_s16_t *p, const int16_t *x,
                                        const int16_t *before, const int32_t *due, int16_t *y, uint8_t *ready,
                                        int16_t *after, int32_t *next, tc_copy_t *copy)
{
    const int32_t left = *due > 0 ? *due : p->right + 1;

    if (*due > 0) {
        copy(y, before, 2 * p->held);
    } else {
        for (int32_t i = 0; i < p->held; i += p->channels) {
            copy(y + i, x, 2 * p->channels);
        }
    }
    copy(y + p->held, x, 2 * p->channels);
    copy(after, y + p->channels, 2 * p->held);
    if (left != 1) {
        for (int32_t i = 0; i < p->held + p->channels; i++) {
            y[i] = 0;
        }
    }
    *ready = left == 1;
    *next = left == 1 ? p->step : left - 1;
}

static TC_UNUSED void tc_signal_stacker_s16(const tc_signal_stacker_s16_t *p, const int16_t *x,
                                            const int16_t *before, const int32_t *due, int16_t *y,
                                            uint8_t *ready, int16_t *after, int32_t *next)
{
    tc_signal_stacker_s16_by(p, x, before, due, y, ready, after, next, tc_signal_keep);
}

#endif
