/* SPDX-License-Identifier: 0BSD */
/* Transposed 2-D convolution, int8 activations and weights, one scale per output channel; the whole tensor.
 *
 *   acc[oy][ox][o] = bias[o] + sum over iy, ix, ky, kx, i of (x[iy][ix][i] - x_zero) * w[o][ky][kx][i],
 *                    where iy*stride_h + ky = oy + pad_top and ix*stride_w + kx = ox + pad_left
 *   y[oy][ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * Row by row as in tc_transpose_conv2d_row_s8.h. y [out_h][out_w][out_c], may not overlap x. No scratch.
 */
#ifndef TC_TRANSPOSE_CONV2D_S8_H
#define TC_TRANSPOSE_CONV2D_S8_H

#include "tc_transpose_conv2d_row_s8.h"

static void tc_transpose_conv2d_s8(const tc_transpose_conv2d_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        tc_transpose_conv2d_s8_made(p, 0, x, r, y + r * p->out_w * p->out_c);
    }
}

#endif
