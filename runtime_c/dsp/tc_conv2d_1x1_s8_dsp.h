/* SPDX-License-Identifier: 0BSD */
/* A 1x1 convolution with stride 1 and no padding over a whole image, int8, one scale per output channel: a
 * row of `pixels` pixels; or a fully connected layer of so many rows. Same bytes as tc_conv2d_s8.
 *
 * x [pixels][in_c], any count of either. y [pixels][out_c]. bias contains -x_zero * sum(w[o]).
 * Two pixels are read before their outputs are written, so y may overlap x where these end below the next
 * pixel read.
 * scratch: 16 bytes for each four input channels, aligned to 4. Weights as tc_dsp.h says, units = in_c / 4
 * rounded up.
 */
#ifndef TC_CONV2D_1X1_S8_DSP_H
#define TC_CONV2D_1X1_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_matrix_t m;
    int32_t pixels, in_c;
} tc_conv2d_1x1_s8_dsp_t;

static void tc_conv2d_1x1_s8_dsp(const tc_conv2d_1x1_s8_dsp_t *p, const int8_t *x, int8_t *y, void *scratch)
{
    int32_t *xs = (int32_t *)scratch;

    for (int32_t i = 0; i < p->pixels; i += 2) {
        /* a last odd pixel is computed twice, stored once */
        const int32_t count = i + 2 <= p->pixels ? 2 : 1;
        (void)tc_dsp_unpack_2(x, x + (count - 1) * p->in_c, p->in_c, xs);
        tc_dsp_pixels(&p->m, xs, count, y);
        x += 2 * p->in_c;
        y += 2 * p->m.out.out_c;
    }
}

#endif
