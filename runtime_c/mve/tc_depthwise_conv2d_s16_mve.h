/* SPDX-License-Identifier: 0BSD */
/* tc_depthwise_conv2d_s16_dsp.h with Helium (MVE): eight channels side by side. Same results.
 *
 * x: k_h pointers to input rows s16 [in_w][c]; pad: c times x_zero, for taps beside the row. y [out_w][c],
 * may not overlap x.
 * stream: of tc_s16_mve.h, by taps [k_h][k_w]; biases contain -x_zero * sum(w[..][o]).
 * scratch: k_h * k_w pointers, aligned as pointers are.
 */
#ifndef TC_DEPTHWISE_CONV2D_S16_MVE_H
#define TC_DEPTHWISE_CONV2D_S16_MVE_H

#include "tc_s16_mve.h"

typedef struct {
    tc_s16_mve_t out;
    const int32_t *stream;
    const int16_t *pad;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
} tc_depthwise_conv2d_s16_mve_t;

static void tc_depthwise_conv2d_s16_mve(const tc_depthwise_conv2d_s16_mve_t *p, const int8_t *const *x,
                                        int16_t *y, void *scratch)
{
    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        const int16_t **tap = (const int16_t **)scratch;
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            const int16_t *row = (const int16_t *)(const void *)x[ky];
            for (int32_t kx = 0; kx < p->k_w; kx++) {
                const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
                *tap++ = ix >= 0 && ix < p->in_w ? row + ix * p->in_c : p->pad;
            }
        }
        tc_s16_mve_depthwise((const int16_t *const *)scratch, p->stream, y, &p->out);
    }
}

#endif
