/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_taper.h for points in any order: point i goes to number order[i] of y, a multiple of 2. */
#ifndef TC_MIXED_TAPER_H
#define TC_MIXED_TAPER_H

#include "tc_spectrum_taper.h"

/* Samples from x on until `last`, the place of the point behind them. */
static inline void tc_mixed_pairs(const int16_t *x, const int32_t *w, const uint16_t *place,
                                  const uint16_t *last, tc_taper_t *taper)
{
    for (; place < last; place++, x += 2, w += 2) {
        tc_taper_pair(x, w, taper, taper->y + *place);
    }
}

/* Returns s. order: [half]. */
static inline int32_t tc_mixed_taper(const tc_spectrum_t *p, const uint16_t *order, const int16_t *x,
                                     const int16_t *held, int32_t *y)
{
    const tc_taper_samples_t v = tc_taper_samples(p, x, held);
    const uint16_t *const second = order + v.old / 2, *const last = order + p->n / 2;
    tc_taper_t taper = tc_taper_begin(p, &v, y, 0);

    tc_mixed_pairs(v.first, p->window, order, second, &taper);
    tc_mixed_pairs(v.second, p->window + v.old, second, last, &taper);
    for (const uint16_t *place = last; place < order + p->half; place++) {
        y[*place] = 0;
        y[*place + 1] = 0;
    }
    return v.scale;
}

#endif
