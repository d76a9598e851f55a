/* SPDX-License-Identifier: 0BSD */
/* conv2d 3x3 of stride 2 by 25 products for 2x2 outputs: tc_scalar_strided.h. */
#ifndef TC_CONV2D_3X3S2_S8_TILES2_SCALAR_H
#define TC_CONV2D_3X3S2_S8_TILES2_SCALAR_H

#include "tc_scalar_strided.h"

static TC_UNUSED void tc_conv2d_3x3s2_s8_tiles2_scalar(const tc_scalar_strided_t *p, const int8_t *x,
                                                       int8_t *y, void *scratch)
{
    tc_scalar_strided_run(p, x, y, scratch);
}

#endif
