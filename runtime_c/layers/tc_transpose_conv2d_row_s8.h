/* SPDX-License-Identifier: 0BSD */
/* One output row of a transposed 2-D convolution, int8 activations and weights, one scale per output channel.
 *
 *   acc[ox][o] = bias[o] + sum over j, kx, i of (x[j][ix][i] - x_zero) * w[o][ky][kx][i],
 *                where ky = (r + pad_top) % stride_h + (count - 1 - j) * stride_h and ix*stride_w + kx = ox
 *                    + pad_left
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * x: pointers to `count` input rows, the last of which is row (r + pad_top) / stride_h of the image; null
 * where there is none. Taps from k_h or k_w on do not exist. Unlike in a convolution the bias holds no zero
 * point: how many taps meet the image differs from output to output. w [out_c][k_h][k_w][in_c]. y
 * [out_w][out_c], may not overlap x. acc cannot overflow: the compiler bounds it. No scratch.
 */
#ifndef TC_TRANSPOSE_CONV2D_ROW_S8_H
#define TC_TRANSPOSE_CONV2D_ROW_S8_H

#include "tc_math.h"

typedef struct {
    const int8_t *w;
    const int32_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, pad_top, pad_left;
    int32_t x_zero, y_zero, y_min, y_max;
    int32_t rounds;
} tc_transpose_conv2d_s8_t;

/* What an input row adds to output column `place` - pad_left. w: [k_w][in_c] of one output channel and one
 * ky. */
static inline int32_t tc_transpose_conv2d_s8_across(const tc_transpose_conv2d_s8_t *p, const int8_t *x,
                                                    const int8_t *w, int32_t place)
{
    int32_t acc = 0, ix = place / p->stride_w;

    for (int32_t kx = place % p->stride_w; kx < p->k_w && ix >= 0; kx += p->stride_w, ix--) {
        if (ix < p->in_w) {
            const int8_t *in = x + ix * p->in_c, *taps = w + kx * p->in_c;
            for (int32_t i = 0; i < p->in_c; i++) {
                acc += (in[i] - p->x_zero) * taps[i];
            }
        }
    }
    return acc;
}

/* Without pointers (rows 0) the rows are those of the image at `image`. */
static inline void tc_transpose_conv2d_s8_made(const tc_transpose_conv2d_s8_t *p, const int8_t *const *rows,
                                               const int8_t *image, int32_t r, int8_t *y)
{
    const int32_t newest = (r + p->pad_top) / p->stride_h, tap = (r + p->pad_top) % p->stride_h;
    const int32_t count = (p->k_h + p->stride_h - 1) / p->stride_h, row_bytes = p->k_w * p->in_c;

    for (int32_t ox = 0; ox < p->out_w; ox++) {
        for (int32_t o = 0; o < p->out_c; o++) {
            int32_t acc = p->bias[o], ky = tap;
            for (int32_t k = 0; k < count && ky < p->k_h; k++, ky += p->stride_h) {
                const int32_t iy = newest - k;
                if (rows ? rows[count - 1 - k] != 0 : iy >= 0 && iy < p->in_h) {
                    const int8_t *x = rows ? rows[count - 1 - k] : image + iy * p->in_w * p->in_c;
                    acc += tc_transpose_conv2d_s8_across(p, x, p->w + (o * p->k_h + ky) * row_bytes,
                                                         ox + p->pad_left);
                }
            }
            const int32_t q = tc_requantize(acc, p->mult[o], p->shift[o], p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(q, p->y_min, p->y_max);
        }
    }
}

static inline void tc_transpose_conv2d_row_s8(const tc_transpose_conv2d_s8_t *p, const int8_t *const *x,
                                              int32_t r, int8_t *y)
{
    tc_transpose_conv2d_s8_made(p, x, 0, r, y);
}

#endif
