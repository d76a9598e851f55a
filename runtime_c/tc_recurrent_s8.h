/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers in portable C: sums of four rows at a time. */
#ifndef TC_RECURRENT_S8_H
#define TC_RECURRENT_S8_H

#include "tc_dot4.h"
#include "tc_recurrent.h"

typedef struct {
    tc_recurrent_t cell; /* rows is a multiple of four */
    const int8_t *w;     /* [rows / 4][in_c][4] */
    const int8_t *r;     /* [rows / 4][units][4] */
} tc_recurrent_s8_t;

/* first, second [4]: the sums of rows `row` to `row` + 3. */
static inline void tc_recurrent_s8_sums(const tc_recurrent_s8_t *p, int32_t row, const int8_t *x, const int32_t *hidden,
                                        int32_t *first, int32_t *second)
{
    const int8_t *r = p->r + row * p->cell.units;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;

    for (int32_t k = 0; k < 4; k++) {
        first[k] = p->cell.in_bias[row + k];
    }
    tc_dot4(x, p->w + row * p->cell.in_c, p->cell.in_c, first);
    for (int32_t u = 0; u < p->cell.units; u++, r += 4) {
        const int32_t v = hidden[u];
        sum0 += v * r[0];
        sum1 += v * r[1];
        sum2 += v * r[2];
        sum3 += v * r[3];
    }
    second[0] = sum0;
    second[1] = sum1;
    second[2] = sum2;
    second[3] = sum3;
}

/* What is multiplied first. */
static inline void tc_recurrent_s8_begin(const tc_recurrent_t *p, const int8_t *state, int32_t *hidden)
{
    for (int32_t u = 0; u < p->units; u++) {
        hidden[u] = tc_recurrent_narrow(tc_recurrent_begin(state, u, p->hidden_factor, p->hidden_zero), p->begin_down);
    }
}

#endif
