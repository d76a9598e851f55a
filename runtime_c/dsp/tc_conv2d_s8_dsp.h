/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution (one group), int8, one scale per output channel. Same bytes as tc_conv2d_s8.
 *
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points.
 * y [out_w][out_c], may not overlap x. bias contains -x_zero * sum(w[o]).
 * The k_w * in_c taps of a kernel row are padded to a multiple of four: units = k_h * that / 4; weights as
 * tc_dsp.h says.
 * scratch: 16 * units bytes for the taps of two pixels, then twice the taps of a kernel row for those that
 * leave the image at the side (or are dilated); aligned to 4.
 */
#ifndef TC_CONV2D_S8_DSP_H
#define TC_CONV2D_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_matrix_t m;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w, x_zero;
} tc_conv2d_s8_dsp_t;

/* The k_w * in_c taps of output column ox in row x: in place where they lie side by side, else gathered in
 * `room`. */
static inline const int8_t *tc_conv2d_s8_dsp_taps(const tc_conv2d_s8_dsp_t *p, const int8_t *x, int32_t ox,
                                                  int8_t *room)
{
    const int32_t first = ox * p->stride_w - p->pad_left;
    int8_t *out = room;

    if (first >= 0 && first + p->k_w <= p->in_w && p->dilation_w == 1) {
        return x + first * p->in_c;
    }
    for (int32_t kx = 0; kx < p->k_w; kx++) {
        const int32_t ix = first + kx * p->dilation_w;
        const int32_t inside = ix >= 0 && ix < p->in_w;
        for (int32_t i = 0; i < p->in_c; i++) {
            *out++ = (int8_t)(inside ? x[ix * p->in_c + i] : p->x_zero);
        }
    }
    return room;
}

static void tc_conv2d_s8_dsp(const tc_conv2d_s8_dsp_t *p, const int8_t *const *x, int8_t *y, void *scratch)
{
    const int32_t taps = p->k_w * p->in_c;
    int8_t *room = (int8_t *)scratch + 16 * p->m.units;

    for (int32_t ox = 0; ox < p->out_w; ox += 2) {
        /* a last odd pixel is computed twice, stored once */
        const int32_t count = ox + 2 <= p->out_w ? 2 : 1;
        int32_t *xs = (int32_t *)scratch;
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            const int8_t *a = tc_conv2d_s8_dsp_taps(p, x[ky], ox, room);
            const int8_t *b = count == 2 ? tc_conv2d_s8_dsp_taps(p, x[ky], ox + 1, room + taps) : a;
            xs = tc_dsp_unpack_2(a, b, taps, xs);
        }
        tc_dsp_pixels(&p->m, (const int32_t *)scratch, count, y);
        y += 2 * p->m.out.out_c;
    }
}

#endif
