/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution (or of a matrix product: 1x1 taps), int16 activations, int8 weights widened to
 * int16. Same integers as tc_conv2d_s16 where every accumulator fits int32.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ix][i] * w[o][ky][kx][i],
 *       ix = ox*stride_w - pad_left + kx*dilation_w
 *   y[ox][o]   = the output of tc_s16.h
 *
 * x: k_h pointers to input rows s16 [in_w][in_c]; a tap beside the row reads x_zero. y [out_w][out_c] may not
 * overlap x, but for 1x1 taps of stride 1, where two pixels are read before their outputs are written.
 * stream: of tc_s16.h, the taps [k_h][k_w][in_c] with zeros up to 4 * halves.
 * scratch: the taps of two pixels, 16 * halves bytes, at words.
 */
#ifndef TC_CONV2D_S16_DSP_H
#define TC_CONV2D_S16_DSP_H

#include "tc_s16.h"

typedef struct {
    tc_s16_out_t out;
    const int32_t *stream;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w, x_zero, halves;
} tc_conv2d_s16_dsp_t;

/* `n` taps from number `tap` on to their places: step s of the pixel is at to[s * apart]. from null: all are
 * x_zero. The loop has a counter of its own: for Armv8.1-M at -Os gcc 12 loses a test of n behind a loop
 * that counts n down to what is tested. */
static void tc_conv2d_s16_dsp_put(int32_t *to, int32_t apart, int32_t tap, const int16_t *from, int32_t n,
                                  int32_t x_zero)
{
    int16_t *half = (int16_t *)(void *)(to + tap / 2 * apart);

    if (n > 0 && (tap & 1) != 0) {
        half[1] = from ? *from++ : (int16_t)x_zero;
        half += 2 * apart;
        n--;
    }
    to = (int32_t *)(void *)half;
    for (int32_t pairs = n >> 1; pairs > 0; pairs--, to += apart) {
        *to = from ? tc_load2(from) : tc_s16_both(x_zero);
        from = from ? from + 2 : from;
    }
    if ((n & 1) != 0) {
        *(int16_t *)(void *)to = from ? *from : (int16_t)x_zero;
    }
}

/* The taps of output column ox. */
static void tc_conv2d_s16_dsp_gather(const tc_conv2d_s16_dsp_t *p, const int8_t *const *x, int32_t ox,
                                     int32_t *to, int32_t apart)
{
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t whole = p->dilation_w == 1 && left >= 0 && left + p->k_w <= p->in_w;
    const int32_t run = whole ? p->k_w * p->in_c : p->in_c;
    int32_t tap = 0;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const int16_t *row = (const int16_t *)(const void *)x[ky];
        for (int32_t kx = 0; kx < (whole ? 1 : p->k_w); kx++, tap += run) {
            const int32_t ix = left + kx * p->dilation_w;
            const int32_t inside = ix >= 0 && ix < p->in_w;
            tc_conv2d_s16_dsp_put(to, apart, tap, inside ? row + ix * p->in_c : 0, run, p->x_zero);
        }
    }
    tc_conv2d_s16_dsp_put(to, apart, tap, 0, 4 * p->halves - tap, 0); /* weight 0 */
}

static void tc_conv2d_s16_dsp(const tc_conv2d_s16_dsp_t *p, const int8_t *const *x, int16_t *y, void *scratch)
{
    int32_t *taps = (int32_t *)scratch;

    for (int32_t ox = 0; ox < p->out_w; ox += 2, y += 2 * p->out.out_c) {
        const int32_t pixels = p->out_w - ox < 2 ? 1 : 2;
        for (int32_t i = 0; i < pixels; i++) {
            tc_conv2d_s16_dsp_gather(p, x, ox + i, taps + i, pixels);
        }
        tc_s16_all(&p->out, taps, p->stream, p->halves, pixels, y);
    }
}

#endif
