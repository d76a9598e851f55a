/* SPDX-License-Identifier: 0BSD */
/* One row of 2-D max pooling, int8. Input and output share scale and zero point.
 *
 *   y[ox][c] = clamp(largest tap, y_min, y_max)
 *
 * over the taps x[ky][ox*stride_w - pad_left + kx*dilation_w][c] that lie inside the image; at least one
 * does.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image is a null pointer.
 * y [out_w][in_c], may not overlap x. No scratch.
 */
#ifndef TC_MAX_POOL2D_S8_H
#define TC_MAX_POOL2D_S8_H

#include "tc_copy.h"

typedef struct {
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t y_min, y_max;
} tc_max_pool2d_s8_t;

#if TC_GNU && !defined(__clang__) /* gcc 12 warns of overflow that cannot be, of few channels */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
/* y[i] = the larger of y[i] and x[i], for i in [0, n); four at a time where the core can. */
static inline void tc_larger_s8(int8_t *y, const int8_t *x, int32_t n)
{
    int32_t i = 0;

#if TC_GNU && defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED)
    for (; i + 4 <= n; i += 4) {
        const uint32_t a = tc_load_word(y + i), b = tc_load_word(x + i);
        uint32_t larger;
        __asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(larger) : "r"(a), "r"(b) : "cc");
        tc_store_word(y + i, larger);
    }
#endif
    for (; i < n; i++) {
        y[i] = x[i] > y[i] ? x[i] : y[i];
    }
}

static void tc_max_pool2d_s8(const tc_max_pool2d_s8_t *p, const int8_t *const *x, int8_t *y)
{
    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        int32_t found = 0;
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            int32_t ix = ox * p->stride_w - p->pad_left;
            for (int32_t kx = 0; kx < p->k_w; kx++, ix += p->dilation_w) {
                if (x[ky] && ix >= 0 && ix < p->in_w) {
                    if (found) {
                        tc_larger_s8(y, x[ky] + ix * p->in_c, p->in_c);
                    } else {
                        tc_copy(y, x[ky] + ix * p->in_c, p->in_c);
                    }
                    found = 1;
                }
            }
        }
        if (p->y_min > -128 || p->y_max < 127) {
            for (int32_t c = 0; c < p->in_c; c++) {
                y[c] = (int8_t)tc_clamp(y[c], p->y_min, p->y_max);
            }
        }
    }
}
#if TC_GNU && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
