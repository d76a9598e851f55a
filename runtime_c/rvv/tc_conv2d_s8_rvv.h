/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution with RISC-V's vectors (tc_rvv.h), three pixels at a time.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] *
 *       w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points; a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * w [k_h * k_w * in_c][out_c]. scratch: 3 bytes for each tap. A group's pixels are read before it is written.
 */
#ifndef TC_CONV2D_S8_RVV_H
#define TC_CONV2D_S8_RVV_H

#include "tc_rvv.h"

typedef struct {
    tc_rvv_out_t out;
    tc_rvv_window_t window;
} tc_conv2d_s8_rvv_t;

static TC_UNUSED void tc_conv2d_s8_rvv(const tc_conv2d_s8_rvv_t *p, const int8_t *const *x, int8_t *y,
                                       void *scratch)
{
    int8_t *const taps = (int8_t *)scratch;
    const int32_t out_w = p->window.out_w, out_c = p->out.out_c;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        tc_rvv_gather(&p->window, x, ox, n, taps);
        tc_rvv_pixels(&p->out, taps, y, n > 2 ? out_c : 0, (n - 1) * out_c);
    }
}

#endif
