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

TC_ATTENTION_DSP(tc_attention_s8_dsp, tc_softmax_many_s8)

#endif
