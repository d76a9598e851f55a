/* SPDX-License-Identifier: 0BSD */
/* One row of a 3x3 depthwise convolution on a core without DSP instructions, channel by channel, stride 1 or
 * 2.
 *
 *   acc[ox][c] = bias[c] + sum over ky, kx of x[ky][ox*stride_w - pad_left + kx][c] * w[c][ky][kx]
 *   y[ox][c]   = clamp(requantize(acc, mult[c], shift[c]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[c]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: 3 pointers to input rows s8 [in_w][out_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * w [out_c][3][3]. scratch: `columns` words. A column of three taps of a channel is a word, of row 0 in bits
 * 0-7, row 1 in bits 8-15, row 2 in bits 24-31; the accumulators take the place of the columns that are used
 * up.
 */
#ifndef TC_DEPTHWISE_CONV2D_3X3_S8_SCALAR_H
#define TC_DEPTHWISE_CONV2D_3X3_S8_SCALAR_H

#include "tc_scalar.h"
#include "tc_scalar_columns.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    int32_t in_w, out_w, stride_w, pad_left, x_zero, columns;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int32_t n, int8_t *y,
                  int32_t step);
} tc_depthwise_conv2d_3x3_s8_scalar_t;

static inline int32_t tc_scalar_column(int8_t a, int8_t b, int8_t c)
{
    return (int32_t)((uint32_t)(uint8_t)a | (uint32_t)(uint8_t)b << 8 | (uint32_t)(uint8_t)c << 24);
}

/* The columns of channel c. */
static inline void tc_scalar_dw3x3_columns(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                           const int8_t *const *x, int32_t *columns, int32_t c)
{
    const int32_t in_c = p->out.out_c, left = p->pad_left;
    const int32_t inside = p->columns - left < p->in_w ? p->columns - left : p->in_w;
    const int32_t outside = tc_scalar_column((int8_t)p->x_zero, (int8_t)p->x_zero, (int8_t)p->x_zero);

    const int8_t *x0 = x[0] + c, *x1 = x[1] + c, *x2 = x[2] + c;
    int32_t *to = columns;
    int32_t i = 0;
    for (; i < left; i++) {
        *to++ = outside;
    }
    int32_t *const end = to + inside;
    for (int32_t at = 0; to < end; at += in_c) {
        *to++ = tc_scalar_column(x0[at], x1[at], x2[at]);
    }
    for (i += inside; i < p->columns; i++) {
        *to++ = outside;
    }
}

/* The columns times weights w [3][3], in place of them. */
TC_INLINE void tc_scalar_dw3x3_sums(const tc_depthwise_conv2d_3x3_s8_scalar_t *p, int32_t *columns,
                                    const int8_t *w)
{
    if (p->stride_w == 1) {
        tc_scalar_dw3x3_1(columns, w, p->out_w);
    } else {
        tc_scalar_dw3x3_2(columns, w, p->out_w);
    }
}

/* The row of channel c with its weights w [3][3]. */
static inline void tc_scalar_dw3x3_channel(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                           const int8_t *const *x, int8_t *y, int32_t *columns, int32_t c,
                                           const int8_t *w)
{
    tc_scalar_dw3x3_columns(p, x, columns, c);
    tc_scalar_dw3x3_sums(p, columns, w);
    p->store(&p->out, columns, c, p->out_w, y + c, p->out.out_c);
}

static TC_UNUSED void tc_depthwise_conv2d_3x3_s8_scalar(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                                        const int8_t *const *x, int8_t *y, void *scratch)
{
    for (int32_t c = 0; c < p->out.out_c; c++) {
        tc_scalar_dw3x3_channel(p, x, y, (int32_t *)scratch, c, p->w + 9 * c);
    }
}

/* With int4 weights: w has 5 bytes for the weights [3][3] of a channel, two in a byte, the first in the low
 * half. */
static TC_UNUSED void tc_depthwise_conv2d_3x3_s8_w4_scalar(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                                           const int8_t *const *x, int8_t *y, void *scratch)
{
    const int8_t *from = p->w;
    for (int32_t c = 0; c < p->out.out_c; c++, from += 5) {
        int8_t w[10];
        for (int32_t i = 0; i < 5; i++) {
            w[2 * i] = (int8_t)((int32_t)((uint32_t)from[i] << 28) >> 28);
            w[2 * i + 1] = (int8_t)(from[i] >> 4);
        }
        tc_scalar_dw3x3_channel(p, x, y, (int32_t *)scratch, c, w);
    }
}

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

/* With weights that have a zero point: the weight of a tap is w + offset. The products of a window with the
 * offset are a difference of two running sums over the columns. scratch: 1 + 2 * columns words. */
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
        tc_scalar_dw3x3_sums(p, columns, p->w + 9 * c);
        for (int32_t i = 0; i < p->out_w; i++, at += p->stride_w) {
            columns[i] = (int32_t)((uint32_t)columns[i] + (at[3] - at[0]));
        }
        p->store(&p->out, columns, c, p->out_w, y + c, p->out.out_c);
    }
}

#endif
