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

static void tc_signal_overlap_add_s16(const int16_t *x, const int16_t *before, int32_t lines, int32_t frames,
                                      int32_t size, int32_t step, int16_t *y, int16_t *after)
{
    for (int32_t line = 0; line < lines; line++, before += size, after += size) {
        for (int32_t i = 0; i < size; i++) {
            after[i] = before[i];
        }
        for (int32_t frame = 0; frame < frames; frame++, x += size, y += step) {
            for (int32_t i = 0; i < size; i++) {
                const int16_t sum = (int16_t)tc_clamp(after[i] + x[i], -32768, 32767);
                if (i < step) {
                    y[i] = sum;
                } else {
                    after[i - step] = sum;
                }
            }
            for (int32_t i = size - step; i < size; i++) {
                after[i] = 0;
            }
        }
    }
}

#endif
