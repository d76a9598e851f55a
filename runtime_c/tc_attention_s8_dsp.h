/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in fixed point and the DSP extension: the bytes of tc_attention_s8.
 * scratch: tc_attention_dsp.h. */
#ifndef TC_ATTENTION_S8_DSP_H
#define TC_ATTENTION_S8_DSP_H

#include "tc_attention_dsp.h"
#include "tc_softmax_many_s8.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_many_s8_t softmax;
    tc_matmul_requant_t product, context;
} tc_attention_s8_dsp_t;

/* Both halves, 0 to 256, at most 255. */
static inline int32_t tc_attention_cut_off(int32_t halves)
{
#if TC_DSP_ASM
    int32_t r;
    __asm__("usat16 %0, #8, %1" : "=r"(r) : "r"(halves));
    return r;
#else
    const int32_t high = tc_hi16(halves), low = tc_lo16(halves);
    return tc_halves(high > 255 ? 255 : high, low > 255 ? 255 : low);
#endif
}

/* Shares less their zero point, which is -128, are what the softmax has before it takes 128 off: no bytes are
 * made of them on the way. */
static inline void tc_attention_s8_shares(const tc_attention_s8_dsp_t *layer, const int8_t *x, int32_t *xs)
{
    int32_t n = layer->at.keys;
    const tc_softmax_many_row_t row = tc_softmax_many_begin(layer->softmax.exps, x, n, 0);

    for (; n >= 4; n -= 4, x += 4, xs += 4) {
        const int32_t y0 = tc_softmax_many_share(&row, x[0]), y2 = tc_softmax_many_share(&row, x[2]);
        xs[0] = tc_attention_cut_off(tc_pkhbt(y0, y2));
        const int32_t y1 = tc_softmax_many_share(&row, x[1]), y3 = tc_softmax_many_share(&row, x[3]);
        xs[2] = tc_attention_cut_off(tc_pkhbt(y1, y3));
    }
    if (n > 0) {
        const int32_t y0 = tc_softmax_many_share(&row, x[0]);
        const int32_t y1 = n > 1 ? tc_softmax_many_share(&row, x[1]) : 0;
        xs[0] = tc_attention_cut_off(tc_pkhbt(y0, n > 2 ? tc_softmax_many_share(&row, x[2]) : 0));
        xs[2] = tc_attention_cut_off(y1);
    }
}

TC_ATTENTION_DSP(tc_attention_s8_dsp, tc_attention_s8_shares)

#endif
