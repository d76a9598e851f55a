/* SPDX-License-Identifier: 0BSD */
/* Lines of real numbers -> their spectra, tinyc/ops/fourier.py. x [lines][samples], y [lines][half + 1][2]. y
 * may not overlap x. No scratch. */
#ifndef TC_SIGNAL_RFFT_S16_H
#define TC_SIGNAL_RFFT_S16_H

#include "tc_fourier_s16.h"

static void tc_signal_rfft_s16(const tc_fourier_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t line = 0; line < p->lines; line++) {
        tc_f_forward_s16(p, x + line * p->samples, y + line * (2 * p->half + 2));
    }
}

#endif
