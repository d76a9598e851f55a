/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in float32 and the DSP extension: the bytes of tc_attention_f32_s8.
 * scratch: tc_attention_dsp.h. */
#ifndef TC_ATTENTION_F32_S8_DSP_H
#define TC_ATTENTION_F32_S8_DSP_H

#include "tc_attention_dsp.h"
#include "tc_softmax_f32_s8.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_f32_s8_t softmax;
    tc_matmul_requant_t product, context;
} tc_attention_f32_s8_dsp_t;

static inline void tc_attention_f32_s8_shares(const tc_attention_f32_s8_dsp_t *layer, int8_t *row,
                                              int32_t *kept, int32_t *xs)
{
    (void)kept;
    tc_softmax_f32_s8(&layer->softmax, row, row);
    tc_matmul_widen(row, layer->at.keys, 1, layer->at.share_zero, 2, xs);
}

TC_ATTENTION_DSP(tc_attention_f32_s8_dsp, tc_attention_f32_s8_shares, 0)

#endif
