/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in fixed point: tc_attention.h. scratch: a row of scores, keys bytes. */
#ifndef TC_ATTENTION_S8_H
#define TC_ATTENTION_S8_H

#include "tc_attention_rows.h"
#include "tc_softmax_many_s8.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_many_s8_t softmax;
    tc_attention_product_t product, context;
} tc_attention_s8_t;

TC_ATTENTION_ROWS(tc_attention_s8, tc_softmax_many_s8)

#endif
