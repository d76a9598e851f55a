/* SPDX-License-Identifier: 0BSD */
/* y = tanh(x) = 2 / (1 + exp(-2x)) - 1, int16 in and out (output scale 1/32768, zero points 0), by
 * tc_logistic.h. y may be x. No scratch. */
#ifndef TC_TANH_S16_H
#define TC_TANH_S16_H

#include "tc_logistic.h"

typedef tc_logistic_t tc_tanh_s16_t;

static void tc_tanh_s16(const tc_tanh_s16_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = (int16_t)tc_tanh_at(p->table, tc_logistic_place(p, x[i]));
    }
}

#endif
