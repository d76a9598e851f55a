/* SPDX-License-Identifier: 0BSD */
/* What the SVDF kernels share. */
#ifndef TC_SVDF_H
#define TC_SVDF_H

#include "tc_dot4.h"

/* The filter's state, of int16, moved by one, with `newest` behind it, and `sum` plus its product with
 * `times`. */
static inline uint32_t tc_svdf_times(const int16_t *before, const int16_t *times, int32_t memory,
                                     int32_t newest, int16_t *after, uint32_t sum)
{
    for (int32_t m = 1; m < memory; m++) {
        const int32_t older = *++before;
        *after++ = (int16_t)older;
        sum += (uint32_t)(older * *times++);
    }
    *after = (int16_t)newest;
    return sum + (uint32_t)(newest * *times);
}

#endif
