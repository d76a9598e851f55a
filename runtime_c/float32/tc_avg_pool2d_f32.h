/* SPDX-License-Identifier: 0BSD */
/* One row of 2-D average pooling, float32: y = clip(sum / n), sum = 0 + the taps inside the image in the
 * order of ky, kx; n counts them, or with count_pad is k_h * k_w. Arguments: tc_pool2d_f32.h.
 */
#ifndef TC_AVG_POOL2D_F32_H
#define TC_AVG_POOL2D_F32_H

#include "tc_pool2d_f32.h"

static void tc_avg_pool2d_f32(const tc_pool2d_f32_t *p, const int8_t *const *x, float *y)
{
    const float lo = tc_float_of(p->lo), hi = tc_float_of(p->hi);

    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        int32_t n = 0;
        for (int32_t c = 0; c < p->in_c; c++) {
            y[c] = 0.0f;
        }
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            for (int32_t kx = 0; kx < p->k_w; kx++) {
                const float *tap = tc_tap_f32(p, x, ox, ky, kx);
                if (!tap) continue;
                for (int32_t c = 0; c < p->in_c; c++) {
                    y[c] += tap[c];
                }
                n++;
            }
        }
        const float count = (float)(p->count_pad ? p->k_h * p->k_w : n);
        for (int32_t c = 0; c < p->in_c; c++) {
            y[c] = tc_clip(y[c] / count, lo, hi);
        }
    }
}

#endif
