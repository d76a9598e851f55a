/* SPDX-License-Identifier: 0BSD */
/* Spectra -> lines of real numbers, tinyc/ops/fourier.py. x [lines][half + 1][2], y [lines][2 half]. y may
 * not overlap x.
 * Scratch: half points. */
#ifndef TC_SIGNAL_IRFFT_S16_H
#define TC_SIGNAL_IRFFT_S16_H

#include "tc_fourier_s16.h"

static void tc_signal_irfft_s16(const tc_fourier_s16_t *p, const int16_t *x, int16_t *y, void *scratch)
{
    for (int32_t line = 0; line < p->lines; line++) {
        tc_f_backward_s16(p, x + line * (2 * p->half + 2), (int16_t *)scratch, y + line * 2 * p->half);
    }
}

#endif
