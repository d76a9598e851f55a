/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in fixed point and Helium: the bytes of tc_attention_s8.
 * scratch: tc_attention_mve.h. */
#ifndef TC_ATTENTION_S8_MVE_H
#define TC_ATTENTION_S8_MVE_H

#include "tc_attention_mve.h"
#include "tc_softmax_many_s8_mve.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_many_s8_t softmax;
    tc_matmul_mve_t product, context;
} tc_attention_s8_mve_t;

/* Shares less their zero point, which is -128, are what the softmax has before it takes 128 off: no bytes are
 * made of them on the way. */
static inline void tc_attention_s8_mve_shares(const tc_attention_s8_mve_t *layer, const int8_t *x,
                                              int16_t *xs)
{
    const int32_t n = layer->at.keys;
    const tc_softmax_many_row_t row = tc_softmax_many_mve_begin(layer->softmax.exps, x, n, 0);

    tc_softmax_many_mve_shares(&row, x, n, xs);
}

TC_ATTENTION_MVE(tc_attention_s8_mve, tc_attention_s8_mve_shares)

#endif
