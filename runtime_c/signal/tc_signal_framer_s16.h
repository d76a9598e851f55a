/* SPDX-License-Identifier: 0BSD */
/* Frames of `size` samples, one for every `step` new ones of each line; `held` samples of a line are those
 * before the new.
 *
 * missing: steps that bring no frame; such frames are 0. ready: none is missing. after may be before, left
 * may be missing; frames may not overlap x. No scratch.
 */
#ifndef TC_SIGNAL_FRAMER_S16_H
#define TC_SIGNAL_FRAMER_S16_H

#include "tc_signal_history.h"

typedef struct {
    int32_t lines, samples, size, step, held;
} tc_signal_framer_s16_t;

/* copy: what copies parts of lines. */
TC_INLINE void tc_signal_framer_s16_by(const tc_signal_framer_s16_t *p, const int16_t *x,
                                       const int16_t *before, const int32_t *missing, int16_t *frames,
                                       uint8_t *ready, int16_t *after, int32_t *left, tc_copy_t *copy)
{
    const int32_t steps = p->samples / p->step, due = *missing;

    for (int32_t line = 0; line < p->lines; line++) {
        const int16_t *old = before + line * p->held, *fresh = x + line * p->samples;
        for (int32_t step = 0; step < steps; step++, frames += p->size) {
            const int32_t at = step * p->step;
            const int32_t of_old = tc_clamp(p->held - at, 0, p->size);
            if (step < due) {
                for (int32_t i = 0; i < p->size; i++) {
                    frames[i] = 0;
                }
                continue;
            }
            if (of_old > 0) {
                copy(frames, old + at, 2 * of_old);
            }
            if (of_old < p->size) {
                copy(frames + of_old, fresh + (at + of_old - p->held), 2 * (p->size - of_old));
            }
        }
    }
    tc_signal_history_by(x, before, p->lines, 2 * p->samples, 2 * p->held, after, copy);
    *ready = due <= 0;
    *left = due > steps ? due - steps : 0;
}

static TC_UNUSED void tc_signal_framer_s16(const tc_signal_framer_s16_t *p, const int16_t *x,
                                           const int16_t *before, const int32_t *missing, int16_t *frames,
                                           uint8_t *ready, int16_t *after, int32_t *left)
{
    tc_signal_framer_s16_by(p, x, before, missing, frames, ready, after, left, tc_signal_keep);
}

#endif
