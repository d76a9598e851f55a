/* SPDX-License-Identifier: 0BSD */
/* One row of a 3x3 depthwise convolution with int4 weights: tc_depthwise_conv2d_3x3_s8_scalar.h, but for
 * w: per channel 5 bytes with the weights [3][3], two in a byte (tc_nibbles.h).
 */
#ifndef TC_DEPTHWISE_CONV2D_3X3_S8_W4_SCALAR_H
#define TC_DEPTHWISE_CONV2D_3X3_S8_W4_SCALAR_H

#include "tc_depthwise_conv2d_3x3_s8_scalar.h"

static TC_UNUSED void tc_depthwise_conv2d_3x3_s8_w4_scalar(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                                                  const int8_t *const *x, int8_t *y,
                                                                      void *scratch)
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

#endif
