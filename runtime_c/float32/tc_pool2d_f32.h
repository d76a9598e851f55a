/* SPDX-License-Identifier: 0BSD */
/* What rows of 2-D pooling, float32, share. x: k_h pointers to input rows f32 [in_w][in_c]; a row outside the
 * image is a null pointer. y [out_w][in_c], may not overlap x. lo, hi: the bits of floats that clip the
 * result. At least one tap is inside.
 */
#ifndef TC_POOL2D_F32_H
#define TC_POOL2D_F32_H

#include "tc_float.h"

typedef struct {
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t lo, hi;
    int32_t count_pad;
} tc_pool2d_f32_t;

/* The element of channel 0 under a tap; null outside the image. */
static inline const float *tc_tap_f32(const tc_pool2d_f32_t *p, const int8_t *const *x, int32_t ox,
                                      int32_t ky, int32_t kx)
{
    const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
    return x[ky] && ix >= 0 && ix < p->in_w ? (const float *)(const void *)x[ky] + ix * p->in_c
        : (const float *)0;
}

#endif
