/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum.h for transforms whose length is no power of two: tc_mixed_taper.h says where samples go,
 * tc_mixed_transform.h what is computed of them.
 *
 * x: the new samples, held: those before. y [2 half + 2]: half + 1 bins. scale: s. y may not overlap x or
 * held. No scratch.
 */
#ifndef TC_SPECTRUM_MIXED_H
#define TC_SPECTRUM_MIXED_H

#include "tc_mixed_taper.h"
#include "tc_mixed_transform.h"

typedef struct {
    tc_spectrum_t of;
    tc_mixed_t mixed;
} tc_spectrum_mixed_t;

static void tc_spectrum_mixed(const tc_spectrum_mixed_t *p, const int16_t *x, const int16_t *held, int32_t *y,
                              int32_t *scale)
{
    *scale = tc_mixed_taper(&p->of, p->mixed.order, x, held, y);
    tc_mixed_transform(&p->of, &p->mixed, y);
}

#endif
