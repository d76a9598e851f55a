/* SPDX-License-Identifier: 0BSD */
/* A row of a 3x3 depthwise convolution on RV32IM (tc_rv32.h): in plain C what the functions in assembly
 * compute that the compiler writes for single layers (tinyc/kernels/scalar/rv32_depthwise.py).
 *
 *   sum = sum over ky, kx of x[ky][ox * stride - pad_left + kx][c] * w[c][ky][kx]
 *   y[ox][c] = tc_rv32_finish of it
 *
 * x: 3 row pointers; columns outside are x_zero. y: may be one of the rows, where the stride is 1, pad_left
 * at most 1 and out_w in_w. channels [out_c][start, mult, add, shift]. w [out_c][9], or (int4) [out_c][5],
 * two in a byte, the first in the low half.
 */
#ifndef TC_RV32_DEPTHWISE_H
#define TC_RV32_DEPTHWISE_H

#include "tc_rv32.h"

typedef struct {
    int32_t in_w, out_w, out_c, stride, pad_left, x_zero, int4, scale, sign, y_min, y_max;
} tc_rv32_depthwise_t;

/* Weight i of a channel. */
TC_INLINE int32_t tc_rv32_depthwise_weight(const int8_t *w, int32_t i, int32_t int4)
{
    if (!int4) return w[i];
    return i & 1 ? w[i / 2] >> 4 : (int32_t)((uint32_t)w[i / 2] << 28) >> 28;
}

/* A column is read before the pixel that ends there is written. */
static TC_UNUSED void tc_rv32_depthwise(const tc_rv32_depthwise_t *p, const int8_t *w,
                                        const int32_t *channels, const int8_t *const *x, int8_t *y)
{
    for (int32_t c = 0; c < p->out_c; c++, w += p->int4 ? 5 : 9, channels += 4) {
        int32_t window[3][3] = {{0}}, column = -p->pad_left;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            int32_t sum = 0;
            for (const int32_t end = ox * p->stride - p->pad_left + 3; column < end; column++) {
                const int32_t inside = column >= 0 && column < p->in_w;
                for (int32_t ky = 0; ky < 3; ky++) {
                    window[ky][0] = window[ky][1];
                    window[ky][1] = window[ky][2];
                    window[ky][2] = inside ? x[ky][column * p->out_c + c] : p->x_zero;
                }
            }
            for (int32_t i = 0; i < 9; i++) {
                sum += window[i / 3][i % 3] * tc_rv32_depthwise_weight(w, i, p->int4);
            }
            y[ox * p->out_c + c] = tc_rv32_finish(sum, p->scale, channels, p->sign, p->y_min, p->y_max);
        }
    }
}

#endif
