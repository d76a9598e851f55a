/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise 2-D convolution with as many outputs as inputs, int8, any kernel size. Same bytes as
 * tc_depthwise_conv2d_s8.
 *
 * x: k_h pointers to input rows s8 [in_w][c]; a row outside the image points to zero points.
 * pad: at least c bytes of x_zero. y [out_w][c], may not overlap x. bias contains -x_zero * sum(w[..][o]).
 * Taps go by pairs, a last odd one with a tap of weight 0. w: for every four channels and every pair of taps
 * s, t the bytes s0 s1 t0 t1, s2 s3 t2 t3 (digit: channel); then for each remaining channel its weights, one
 * byte each, in whole words. pairs = k_h * k_w / 2 rounded up. out: as tc_dsp.h says.
 * scratch: 2 * pairs pointers, aligned as pointers are.
 */
#ifndef TC_DEPTHWISE_CONV2D_S8_DSP_H
#define TC_DEPTHWISE_CONV2D_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_out_t out;
    const int32_t *w;
    const int8_t *pad;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w, pairs;
} tc_depthwise_conv2d_s8_dsp_t;

/* Where the taps of output column ox are, for channel 0. Returns whether all lie inside the rows. */
static inline int32_t tc_depthwise_conv2d_s8_dsp_taps(const tc_depthwise_conv2d_s8_dsp_t *p,
                                                      const int8_t *const *x, int32_t ox,
                                                      const int8_t **taps)
{
    const int8_t **tap = taps;
    int32_t all_inside = 1;

    for (int32_t ky = 0; ky < p->k_h; ky++) {
        for (int32_t kx = 0; kx < p->k_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            const int32_t inside = ix >= 0 && ix < p->in_w;
            *tap++ = inside ? x[ky] + ix * p->in_c : p->pad;
            all_inside &= inside;
        }
    }
    if ((p->k_h * p->k_w) % 2 != 0) {
        *tap = taps[0]; /* weight 0 */
    }
    return all_inside;
}

/* acc[o] = bias[o] + sum over taps, for four channels whose bytes lie `at` bytes after each tap's.
 * Not inlined: unrolled by the compiler it needs more registers than there are. */
static TC_NOINLINE void tc_depthwise_conv2d_s8_dsp_quad(const int8_t *const *taps, int32_t at,
                                                        const int32_t *w, int32_t pairs, const int32_t *bias,
                                                        int32_t *acc)
{
    int32_t a0 = bias[0], a1 = bias[1], a2 = bias[2], a3 = bias[3];

    do {
        const int32_t s = tc_load4(taps[0] + at), t = tc_load4(taps[1] + at);
        const int32_t x01 = tc_pkhbt(s, t), x23 = tc_pkhtb(t, s), w01 = w[0], w23 = w[1];
        a0 = tc_smlad(tc_sxtb16(x01), tc_sxtb16(w01), a0);
        a1 = tc_smlad(tc_sxtb16_ror8(x01), tc_sxtb16_ror8(w01), a1);
        a2 = tc_smlad(tc_sxtb16(x23), tc_sxtb16(w23), a2);
        a3 = tc_smlad(tc_sxtb16_ror8(x23), tc_sxtb16_ror8(w23), a3);
        taps += 2;
        w += 2;
    } while (--pairs > 0);
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

static void tc_depthwise_conv2d_s8_dsp(const tc_depthwise_conv2d_s8_dsp_t *p, const int8_t *const *x,
                                       int8_t *y, void *scratch)
{
    const int32_t blocked = p->in_c / 4 * 4;
    const int8_t **taps = (const int8_t **)scratch;
    int32_t inside = 0, first = 0;

    for (int32_t ox = 0; ox < p->out_w; ox++, y += p->in_c) {
        const int32_t last_ix = ox * p->stride_w - p->pad_left + (p->k_w - 1) * p->dilation_w;
        if (!inside || last_ix >= p->in_w) { /* between the sides all taps just move on */
            inside = tc_depthwise_conv2d_s8_dsp_taps(p, x, ox, taps);
            first = ox;
        }
        const int32_t shift = (ox - first) * p->stride_w * p->in_c;
        const int32_t *w = p->w;
        int32_t acc[4];
        for (int32_t o = 0; o < blocked; o += 4, w += 2 * p->pairs) {
            tc_depthwise_conv2d_s8_dsp_quad(taps, shift + o, w, p->pairs, p->out.bias + o, acc);
            tc_dsp_outputs(&p->out, p->out.scale + 3 * o, acc, 4, y + o);
        }
        const int8_t *rest = (const int8_t *)w;
        for (int32_t o = blocked; o < p->in_c; o++, rest += (2 * p->pairs + 3) / 4 * 4) {
            acc[0] = p->out.bias[o];
            for (int32_t i = 0; i < p->k_h * p->k_w; i++) {
                acc[0] += taps[i][shift + o] * rest[i];
            }
            y[o] = tc_dsp_output(&p->out, o, acc[0]);
        }
    }
}

#endif
