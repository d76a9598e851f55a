/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution with int4 weights on a core without DSP instructions, three pixels at a time:
 * tc_conv2d_s8_scalar.h, but for the weights.
 *
 * nibbles [out_c / 4][taps / 2]: a word has two taps s, t of four channels, from the top s0 s1 t0 t1 s2 s3 t2
 * t3. taps is a multiple of 4, zeros beyond the last channel and tap. No |sum of x * w| reaches 2^20.
 * layer.w, layer.segment: not used.
 */
#ifndef TC_CONV2D_S8_W4_SCALAR_H
#define TC_CONV2D_S8_W4_SCALAR_H

#include "tc_conv2d_s8_scalar.h"
#include "tc_scalar_nibbles.h"

typedef struct {
    const int32_t *nibbles;
    tc_conv2d_s8_scalar_t layer;
} tc_conv2d_s8_w4_scalar_t;

static TC_UNUSED void tc_conv2d_s8_w4_scalar(const tc_conv2d_s8_w4_scalar_t *p, const int8_t *const *x,
                                             int8_t *y, void *scratch)
{
    const tc_conv2d_s8_scalar_t *const layer = &p->layer;
    int32_t *const packed = (int32_t *)scratch;
    int32_t *const end = packed + 2 * layer->taps;
    const int32_t out_c = layer->out.out_c, out_w = layer->window.out_w;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        const int32_t *w = p->nibbles;
        tc_scalar_gather(&layer->window, x, ox, n, layer->taps, packed);
        for (int32_t o = 0; o < out_c; o += 4, w += layer->taps >> 1) {
            int32_t sums[8];
            tc_scalar_nibbles4(packed, w, end, sums);
            layer->store(&layer->out, sums, 0, o, n, y);
        }
    }
}

#endif
