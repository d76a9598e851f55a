/* One row of a 2-D convolution on RV32IM (tc_rv32.h), three pixels and eight channels at a time.
 *
 *   acc[ox][o] = bias[o] + sum over ky, kx, i of x[ky][ox*stride_w - pad_left + kx*dilation_w][i] * w[o][ky][kx][i]
 *   y[ox][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points; a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points. y [out_w][out_c].
 * w [out_c / 8][taps][8], taps = k_h * k_w * in_c rounded up to a multiple of 4, zeros beyond the last channel and tap.
 * scratch: 8 bytes for each tap, on a word. A group's pixels are read before it is written.
 * segment: taps, a multiple of 4, over which no |sum of x * w| reaches 2^20.
 */
#ifndef TC_CONV2D_S8_RV32_H
#define TC_CONV2D_S8_RV32_H

#include "tc_rv32.h"

typedef struct {
    const int8_t *w;
    tc_rv32_out_t out;
    tc_rv32_window_t window;
    int32_t taps, segment;
} tc_conv2d_s8_rv32_t;

static TC_RV32_UNUSED void tc_conv2d_s8_rv32(const tc_conv2d_s8_rv32_t *p, const int8_t *const *x, int8_t *y, void *scratch)
{
    int32_t *const packed = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c, out_w = p->window.out_w;

    for (int32_t ox = 0; ox < out_w; ox += 3, y += 3 * out_c) {
        const int32_t n = out_w - ox < 3 ? out_w - ox : 3;
        const int8_t *w = p->w;
        tc_rv32_gather(&p->window, x, ox, n, p->taps, packed);
        for (int32_t o = 0; o < out_c; o += 8, w += 8 * p->taps) {
            int32_t sums[16], acc[24];
            int32_t done = 0;
            if (p->taps > p->segment) {
                for (int32_t i = 0; i < 24; i++) {
                    acc[i] = 0;
                }
                for (; done + p->segment < p->taps; done += p->segment) {
                    tc_rv32_dot8(packed + 2 * done, w + 8 * done, p->segment >> 2, sums);
                    tc_rv32_add8(sums, acc);
                }
            }
            tc_rv32_dot8(packed + 2 * done, w + 8 * done, (p->taps - done) >> 2, sums);
            tc_rv32_store(&p->out, sums, done ? acc : 0, o, n, y);
        }
    }
}

#endif
