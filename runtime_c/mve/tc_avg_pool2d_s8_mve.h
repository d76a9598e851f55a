/* SPDX-License-Identifier: 0BSD */
/* tc_avg_pool2d_s8 with Helium (MVE): the same bytes, of windows of at most 64 taps. Sums of eight channels
 * are int16, and divided by a multiplication that is exact for them.
 */
#ifndef TC_AVG_POOL2D_S8_MVE_H
#define TC_AVG_POOL2D_S8_MVE_H

#include "tc_mve_pool.h"

static void tc_avg_pool2d_s8_mve(const tc_mve_pool_t *p, const int8_t *const *x, int8_t *y)
{
    tc_mve_mean_t mean = {0, 0, 0, 0, p->y_min, p->y_max};
    int32_t last = 0;

    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        const int8_t *taps[TC_MVE_TAPS];
        const int32_t first = ox * p->stride_w - p->pad_left;
        int32_t n = tc_mve_taps(taps, x, p->k_h, p->k_w, first, p->dilation_w, p->in_w, p->in_c);
        if (n == 1 && !p->count_pad) taps[n++] = taps[0]; /* no factor divides by 1 */
        if (n != last) {
            tc_mve_mean_of(&mean, n, p->count_pad ? p->k_h * p->k_w : n, p->x_zero);
            last = n;
        }
        for (int32_t c = 0; c < p->in_c; c += 8) {
            tc_mve_mean(taps, n, c, y + c, p->in_c - c, &mean);
        }
    }
}

#endif
