/* SPDX-License-Identifier: 0BSD */
/* tc_fully_connected_s8_scalar with weights that have a zero point: the weight of an input is w + offset. The
 * products of the inputs with the offset are those of their sum, which all outputs share. */
#ifndef TC_FULLY_CONNECTED_S8_OFFSET_SCALAR_H
#define TC_FULLY_CONNECTED_S8_OFFSET_SCALAR_H

#include "tc_fully_connected_s8_scalar.h"

static TC_UNUSED void tc_fully_connected_s8_offset_scalar(const tc_fully_connected_s8_scalar_t *p,
                                                          const int8_t *x, int8_t *y, void *scratch,
                                                          int32_t offset)
{
    int32_t *const wide = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    tc_clear(wide + p->in_c, p->taps - p->in_c);
    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        int32_t sum = 0;
        for (int32_t i = 0; i < p->in_c; i++) {
            sum += x[i];
            wide[i] = x[i];
        }
        sum *= offset;
        for (int32_t o = 0; o < out_c; o += 4) {
            int32_t acc[4];
            tc_scalar_dense4(wide, p->w + o * p->taps, p->taps >> 2, acc);
            for (int32_t i = 0; i < 4; i++) {
                acc[i] += sum;
            }
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#endif
