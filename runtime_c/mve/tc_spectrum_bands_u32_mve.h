/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_bands_u32 with Helium; same results. y may not overlap x. No scratch. */
#ifndef TC_SPECTRUM_BANDS_U32_MVE_H
#define TC_SPECTRUM_BANDS_U32_MVE_H

#include "tc_mve_bands.h"

static void tc_spectrum_bands_u32_mve(const tc_spectrum_bands_t *p, const uint32_t *x, uint32_t *y)
{
    tc_mve_bands(p, x, 0, y);
}

#endif
