/* SPDX-License-Identifier: 0BSD */
/* Fully connected with RISC-V's vectors (tc_rvv.h): y[b][o] = clamp(requantize(bias[o] + sum over i of
 * x[b][i] * w[o][i])).
 * x [batch][in_c], y [batch][out_c]; w [in_c][out_c]. An input is read until its last output is written.
 */
#ifndef TC_FULLY_CONNECTED_S8_RVV_H
#define TC_FULLY_CONNECTED_S8_RVV_H

#include "tc_rvv.h"

typedef struct {
    tc_rvv_out_t out;
    int32_t batch;
} tc_fully_connected_s8_rvv_t;

static TC_UNUSED void tc_fully_connected_s8_rvv(const tc_fully_connected_s8_rvv_t *p, const int8_t *x,
                                                int8_t *y)
{
    for (int32_t b = 0; b < p->batch; b++, x += p->out.taps, y += p->out.out_c) {
        tc_rvv_pixel(&p->out, x, y);
    }
}

#endif
