/* SPDX-License-Identifier: 0BSD */
/* Lines of real numbers -> their spectra, tinyc/ops/fourier.py. x [lines][samples], y [lines][half + 1][2]. y
 * may not overlap x. No scratch. */
#ifndef TC_SIGNAL_RFFT_S32_H
#define TC_SIGNAL_RFFT_S32_H

#include "tc_fourier_s32.h"

static void tc_signal_rfft_s32(const tc_fourier_s32_t *p, const int32_t *x, int32_t *y)
{
    for (int32_t line = 0; line < p->lines; line++) {
        tc_f_forward_s32(p, x + line * p->samples, y + line * (2 * p->half + 2));
    }
}

#endif
