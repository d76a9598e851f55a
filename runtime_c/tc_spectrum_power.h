/* SPDX-License-Identifier: 0BSD */
/* re^2 + im^2 of the bins [start, end) of x, int32 pairs -> y [end - start] uint64, which may be x. */
#ifndef TC_SPECTRUM_POWER_H
#define TC_SPECTRUM_POWER_H

#include "tc_math.h"

static void tc_spectrum_power(const int32_t *x, int32_t start, int32_t end, uint32_t *y)
{
    const int32_t *const last = x + 2 * end;

    for (x += 2 * start; x < last; x += 2, y += 2) {
        const int32_t re = x[0], im = x[1];
        const uint64_t power = (uint64_t)((int64_t)re * re) + (uint64_t)((int64_t)im * im);
        y[0] = (uint32_t)power;
        y[1] = (uint32_t)(power >> 32);
    }
}

#endif
