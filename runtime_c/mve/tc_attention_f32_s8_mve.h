/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in float32 and Helium: the bytes of tc_attention_f32_s8.
 * scratch: tc_attention_mve.h. */
#ifndef TC_ATTENTION_F32_S8_MVE_H
#define TC_ATTENTION_F32_S8_MVE_H

#include "tc_attention_mve.h"
#include "tc_softmax_f32_s8.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_f32_s8_t softmax;
    tc_matmul_mve_t product, context;
} tc_attention_f32_s8_mve_t;

static inline void tc_attention_f32_s8_mve_shares(const tc_attention_f32_s8_mve_t *layer, int8_t *row,
                                                  int16_t *xs)
{
    tc_softmax_f32_s8(&layer->softmax, row, row);
    tc_matmul_mve_widen(row, layer->at.keys, 1, layer->at.share_zero, xs);
}

TC_ATTENTION_MVE(tc_attention_f32_s8_mve, tc_attention_f32_s8_mve_shares)

#endif
