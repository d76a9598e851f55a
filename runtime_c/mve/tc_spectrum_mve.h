/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum.h with Helium; twiddles as tc_mve_transform.h has them. Same results. */
#ifndef TC_SPECTRUM_MVE_H
#define TC_SPECTRUM_MVE_H

#include "tc_mve_taper.h"
#include "tc_mve_transform.h"

static void tc_spectrum_mve(const tc_spectrum_t *p, const int16_t *x, const int16_t *held, int32_t *y,
                            int32_t *scale)
{
    *scale = tc_mve_taper(p, x, held, y);
    tc_mve_transform(p->twiddles, p->split, p->half, p->radix, y);
}

#endif
