/* SPDX-License-Identifier: 0BSD */
/* tc_max_pool2d_s8 with Helium (MVE): the same bytes, of windows of at most 64 taps. */
#ifndef TC_MAX_POOL2D_S8_MVE_H
#define TC_MAX_POOL2D_S8_MVE_H

#include "tc_mve_pool.h"

static void tc_max_pool2d_s8_mve(const tc_mve_pool_t *p, const int8_t *const *x, int8_t *y)
{
    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        const int8_t *taps[TC_MVE_TAPS];
        const int32_t first = ox * p->stride_w - p->pad_left;
        const int32_t n = tc_mve_taps(taps, x, p->k_h, p->k_w, first, p->dilation_w, p->in_w, p->in_c);
        for (int32_t c = 0; c < p->in_c; c += 16) {
            tc_mve_largest(taps, n, c, y + c, p->in_c - c);
        }
        if (p->y_min > -128 || p->y_max < 127) {
            for (int32_t c = 0; c < p->in_c; c++) {
                y[c] = (int8_t)tc_clamp(y[c], p->y_min, p->y_max);
            }
        }
    }
}

#endif
