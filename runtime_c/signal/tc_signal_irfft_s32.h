/* SPDX-License-Identifier: 0BSD */
/* Spectra -> lines of real numbers, tinyc/ops/fourier.py. x [lines][half + 1][2], y [lines][2 half]. y may
 * not overlap x.
 * Scratch: half points. */
#ifndef TC_SIGNAL_IRFFT_S32_H
#define TC_SIGNAL_IRFFT_S32_H

#include "tc_fourier_s32.h"

static void tc_signal_irfft_s32(const tc_fourier_s32_t *p, const int32_t *x, int32_t *y, void *scratch)
{
    for (int32_t line = 0; line < p->lines; line++) {
        tc_f_backward_s32(p, x + line * (2 * p->half + 2), (int32_t *)scratch, y + line * 2 * p->half);
    }
}

#endif
