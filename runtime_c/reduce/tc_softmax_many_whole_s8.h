/* SPDX-License-Identifier: 0BSD */
/* Softmax over the last axis of many rows: the bytes of tc_softmax_whole_s8, as tc_softmax_many_s8 computes
 * them. */
#ifndef TC_SOFTMAX_MANY_WHOLE_S8_H
#define TC_SOFTMAX_MANY_WHOLE_S8_H

#include "tc_softmax_many_s8.h"

typedef tc_softmax_many_s8_t tc_softmax_many_whole_s8_t;

static void tc_softmax_many_whole_s8(const tc_softmax_many_whole_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        tc_softmax_many_row(p->exps, x, p->depth, 1, y);
    }
}

#endif
