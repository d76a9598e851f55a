/* SPDX-License-Identifier: 0BSD */
/* The Fourier transform of the last samples times a window, scaled up as far as they go: tc_spectrum_taper.h
 * says how samples are taken, tc_spectrum_transform.h what is computed of them.
 *
 * x: the new samples, held: those before. y [2 half + 2]: half + 1 bins. scale: s, the bits by which samples
 * were shifted up. y may not overlap x or held. No scratch.
 */
#ifndef TC_SPECTRUM_H
#define TC_SPECTRUM_H

#include "tc_spectrum_taper.h"
#include "tc_spectrum_transform.h"

static void tc_spectrum(const tc_spectrum_t *p, const int16_t *x, const int16_t *held, int32_t *y,
                        int32_t *scale)
{
    *scale = tc_spectrum_taper(p, x, held, y);
    tc_spectrum_transform(p->twiddles, p->split, p->half, p->radix, y);
}

#endif
