/* SPDX-License-Identifier: 0BSD */
/* A row of a depthwise convolution on RV32IM (tc_rv32.h): in plain C what the functions in assembly compute
 * that the compiler writes for single layers (tinyc/kernels/scalar/rv32_taps.py, rv32_depthwise.py,
 * rv32_columns.py).
 *
 *   sum = sum over ky, kx of x[ky][ox * stride - pad_left + kx * dilation][c] * w[c][ky][kx]
 *   y[ox][c] = tc_rv32_finish of it
 *
 * x: k_h row pointers; columns outside are pad [out_c], or x_zero where pad is NULL. y: may be a row of x as
 * far as its outputs come late enough. channels [out_c][start, mult, add, shift].
 */
#ifndef TC_RV32_TAPS_H
#define TC_RV32_TAPS_H

#include "tc_rv32.h"

#include <stddef.h>

#if !TC_RV32_ASM

typedef struct {
    int32_t k_h, k_w, stride, dilation, pad_left, x_zero, in_w, out_w, out_c;
    int32_t late; /* 1: an output is written when the next one has been read, else 0 */
    /* Weights of `lanes` channels at a time, the last of them ending with the channels, over those before;
     * tap, block: weights from a tap to the next, and from these channels to the next ones. int4: two in a
     * byte, the first in the low half. */
    int32_t lanes, tap, block, int4;
    int32_t scale, sign, y_min, y_max;
} tc_rv32_taps_t;

/* Channel c of the pixel whose first column is ix. */
static inline int32_t tc_rv32_taps_sum(const tc_rv32_taps_t *p, const int8_t *w, const int8_t *pad,
                                       const int8_t *const *x, int32_t ix, int32_t c)
{
    const int32_t block = c / p->lanes, last = p->out_c - p->lanes;
    const int32_t first = block * p->lanes < last ? block * p->lanes : last;
    int32_t at = block * p->block + c - first, sum = 0;
    for (int32_t ky = 0; ky < p->k_h; ky++) {
        for (int32_t kx = 0; kx < p->k_w; kx++, at += p->tap) {
            const int32_t column = ix + kx * p->dilation;
            const int32_t outside = pad ? pad[c] : p->x_zero;
            const int32_t value = column >= 0 && column < p->in_w ? x[ky][column * p->out_c + c] : outside;
            const int32_t byte = w[p->int4 ? at / 2 : at];
            sum += value * (!p->int4 ? byte : at & 1 ? byte >> 4 : (int32_t)((uint32_t)byte << 28) >> 28);
        }
    }
    return sum;
}

static inline void tc_rv32_taps(const tc_rv32_taps_t *p, const int8_t *w, const int32_t *channels,
                                const int8_t *pad, const int8_t *const *x, int8_t *y)
{
    for (int32_t c = 0; c < p->out_c; c++, channels += 4) {
        int8_t made = 0;
        for (int32_t i = 0; i < p->out_w + p->late; i++) {
            const int8_t before = made;
            if (i < p->out_w) {
                const int32_t sum = tc_rv32_taps_sum(p, w, pad, x, i * p->stride - p->pad_left, c);
                made = tc_rv32_finish(sum, p->scale, channels, p->sign, p->y_min, p->y_max);
            }
            if (i >= p->late) y[(i - p->late) * p->out_c + c] = p->late ? before : made;
        }
    }
}

#endif

#endif
