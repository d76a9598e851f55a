/* SPDX-License-Identifier: 0BSD */
/* y = x * 2^s modulo 2^16 for n samples, and s = 15 - bits of the largest |x|; 0 for silence.
 *
 * The largest is searched as in tc_signal_most_s16. With `micro` |-32768| counts as nothing, and silence has
 * s = 15. y may be x. No scratch.
 */
#ifndef TC_SIGNAL_AUTO_SCALE_S16_H
#define TC_SIGNAL_AUTO_SCALE_S16_H

#include "tc_signal_most.h"

static void tc_signal_auto_scale_s16(const int16_t *x, int32_t n, int32_t micro, int16_t *y, int32_t *scale)
{
    const int32_t s = tc_signal_scale_s16(x, n, micro);

    for (int32_t i = 0; i < n; i++) {
        y[i] = (int16_t)(uint16_t)((uint32_t)x[i] << s);
    }
    *scale = s;
}

#endif
