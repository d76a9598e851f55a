/* SPDX-License-Identifier: 0BSD */
/* tc_depthwise_conv2d_3x3_s8_scalar with weights that have a zero point: the weight of a tap is w + offset.
 * The products of a window with the offset are a difference of two running sums over the columns.
 *
 * scratch: 1 + 2 * columns words.
 */
#ifndef TC_DEPTHWISE_CONV2D_3X3_S8_OFFSET_SCALAR_H
#define TC_DEPTHWISE_CONV2D_3X3_S8_OFFSET_SCALAR_H

#include "tc_depthwise_conv2d_3x3_s8_scalar.h"

/* columns [n] -> the offset times the sum of the first 0 .. n of them. */
static inline void tc_scalar_dw3x3_running(const int32_t *columns, int32_t n, int32_t offset, uint32_t *to)
{
    uint32_t sum = 0;
    *to++ = sum;
    for (const int32_t *const end = columns + n; columns < end; columns++) {
        const int32_t taps = (int8_t)*columns + (int8_t)(*columns >> 8) + (*columns >> 24);
        sum += (uint32_t)(taps * offset);
        *to++ = sum;
    }
}

static TC_UNUSED void tc_depthwise_conv2d_3x3_s8_offset_scalar(
    const tc_depthwise_conv2d_3x3_s8_scalar_t *p, const int8_t *const *x, int8_t *y, void *scratch,
    int32_t offset)
{
    int32_t *const columns = (int32_t *)scratch;
    uint32_t *const running = (uint32_t *)columns + p->columns;

    for (int32_t c = 0; c < p->out.out_c; c++) {
        const uint32_t *at = running;
        tc_scalar_dw3x3_columns(p, x, columns, c);
        tc_scalar_dw3x3_running(columns, p->columns, offset, running);
        if (p->stride_w == 1) {
            tc_scalar_dw3x3_1(columns, p->w + 9 * c, p->out_w);
        } else {
            tc_scalar_dw3x3_2(columns, p->w + 9 * c, p->out_w);
        }
        for (int32_t i = 0; i < p->out_w; i++, at += p->stride_w) {
            columns[i] = (int32_t)((uint32_t)columns[i] + (at[3] - at[0]));
        }
        p->store(&p->out, columns, c, p->out_w, y + c, p->out.out_c);
    }
}

#endif
