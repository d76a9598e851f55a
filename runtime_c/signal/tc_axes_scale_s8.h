/* SPDX-License-Identifier: 0BSD */
/* Samples of several axes to int8: see tc_axes_scale.h. */
#ifndef TC_AXES_SCALE_S8_H
#define TC_AXES_SCALE_S8_H

#include "tc_axes_scale.h"

static void tc_axes_scale_s8(const tc_axes_scale_t *p, const int16_t *x, int8_t *y)
{
    for (int32_t i = 0, axis = 0; i < p->n; i++, axis = axis + 1 < p->axes ? axis + 1 : 0) {
        y[i] = (int8_t)tc_axes_scaled(p, axis, x[i]);
    }
}

#endif
