/* SPDX-License-Identifier: 0BSD */
/* tc_conv2d_s16_dsp.h with Helium (MVE): eight taps to an instruction. Same results.
 *
 * x: k_h pointers to input rows s16 [in_w][in_c]; a tap beside the row reads x_zero. y [out_w][out_c] may not
 * overlap x, but for 1x1 taps of stride 1, where two pixels are read before their outputs are written.
 * stream: of tc_s16_mve.h, the taps [k_h][k_w][in_c].
 * scratch: the taps of two pixels, 32 * out.steps bytes, at words.
 */
#ifndef TC_CONV2D_S16_MVE_H
#define TC_CONV2D_S16_MVE_H

#include "tc_s16_mve.h"

typedef struct {
    tc_s16_mve_t out;
    const int32_t *stream;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w, x_zero;
} tc_conv2d_s16_mve_t;

/* The taps of output column ox. */
static void tc_conv2d_s16_mve_gather(const tc_conv2d_s16_mve_t *p, const int8_t *const *x, int32_t ox,
                                     int16_t *to)
{
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t whole = p->dilation_w == 1 && left >= 0 && left + p->k_w <= p->in_w;
    const int32_t run = whole ? p->k_w * p->in_c : p->in_c;
    int16_t *const end = to + 8 * p->out.steps;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const int16_t *row = (const int16_t *)(const void *)x[ky];
        for (int32_t kx = 0; kx < (whole ? 1 : p->k_w); kx++, to += run) {
            const int32_t ix = left + kx * p->dilation_w;
            const int32_t inside = ix >= 0 && ix < p->in_w;
            tc_s16_mve_run(to, inside ? row + ix * p->in_c : 0, run, p->x_zero);
        }
    }
    tc_s16_mve_run(to, 0, (int32_t)(end - to), 0); /* weight 0 */
}

static void tc_conv2d_s16_mve(const tc_conv2d_s16_mve_t *p, const int8_t *const *x, int16_t *y, void *scratch)
{
    int16_t *const first = (int16_t *)scratch, *const second = first + 8 * p->out.steps;

    for (int32_t ox = 0; ox < p->out_w; ox += 2, y += 2 * p->out.out_c) {
        tc_conv2d_s16_mve_gather(p, x, ox, first);
        if (p->out_w - ox < 2) {
            tc_s16_mve_1(first, p->stream, y, &p->out);
        } else {
            tc_conv2d_s16_mve_gather(p, x, ox + 1, second);
            tc_s16_mve_2(first, second, p->stream, y, &p->out);
        }
    }
}

#endif
