/* SPDX-License-Identifier: 0BSD */
/* Frames added to what the last ones left, each sum limited to int16; of each frame the first `step` sums are
 * put out.
 *
 * x [lines][frames][size], before, after [lines][size], y [lines][frames * step]. after may be before; y may
 * overlap nothing. No scratch.
 */
#ifndef TC_SIGNAL_OVERLAP_ADD_S16_H
#define TC_SIGNAL_OVERLAP_ADD_S16_H

#include "tc_math.h"

/* n sums y[i] = x0[i] + x1[i]; y may lie before x0. */
typedef void tc_sums_s16_t(int32_t n, const int16_t *x0, const int16_t *x1, int16_t *y);

static TC_UNUSED void tc_sums_s16(int32_t n, const int16_t *x0, const int16_t *x1, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = (int16_t)tc_clamp(x0[i] + x1[i], -32768, 32767);
    }
}

TC_INLINE void tc_signal_overlap_add_s16_by(const int16_t *x, const int16_t *before, int32_t lines,
                                            int32_t frames, int32_t size, int32_t step, int16_t *y,
                                            int16_t *after, tc_sums_s16_t *sums)
{
    for (int32_t line = 0; line < lines; line++, before += size, after += size) {
        const int16_t *rest = before;
        for (int32_t frame = 0; frame < frames; frame++, x += size, y += step) {
            sums(step, rest, x, y);
            sums(size - step, rest + step, x + step, after);
            for (int32_t i = size - step; i < size; i++) {
                after[i] = 0;
            }
            rest = after;
        }
    }
}

static TC_UNUSED void tc_signal_overlap_add_s16(const int16_t *x, const int16_t *before, int32_t lines,
                                                int32_t frames, int32_t size, int32_t step, int16_t *y,
                                                int16_t *after)
{
    tc_signal_overlap_add_s16_by(x, before, lines, frames, size, step, y, after, tc_sums_s16);
}

#endif
