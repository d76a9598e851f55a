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
    int32_t channels, held, right, step;
} tc_signal_stacker_s16_t;

static void tc_signal_stacker_s16(const tc_signal_stacker_s16_t *p, const int16_t *x, const int16_t *before,
                                  const int32_t *due, int16_t *y, uint8_t *ready, int16_t *after,
                                  int32_t *next)
{
    const int32_t left = *due > 0 ? *due : p->right + 1, first = *due <= 0;

    for (int32_t i = 0; i < p->held; i++) {
        y[i] = first ? x[i % p->channels] : before[i];
    }
    for (int32_t i = 0; i < p->channels; i++) {
        y[p->held + i] = x[i];
    }
    for (int32_t i = 0; i < p->held; i++) {
        after[i] = y[p->channels + i];
    }
    if (left != 1) {
        for (int32_t i = 0; i < p->held + p->channels; i++) {
            y[i] = 0;
        }
    }
    *ready = left == 1;
    *next = left == 1 ? p->step : left - 1;
}

#endif
