/* SPDX-License-Identifier: 0BSD */
/* tc_softmax_many_whole_s8.h with Helium. Same results; y may be x. */
#ifndef TC_SOFTMAX_MANY_WHOLE_S8_MVE_H
#define TC_SOFTMAX_MANY_WHOLE_S8_MVE_H

#include "tc_softmax_many_s8_mve.h"

static void tc_softmax_many_whole_s8_mve(const tc_softmax_many_s8_t *p, const int8_t *x, int8_t *y)
{
    tc_softmax_many_mve_rows(p, 1, x, y);
}

#endif
