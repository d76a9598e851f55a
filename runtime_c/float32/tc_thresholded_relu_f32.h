/* SPDX-License-Identifier: 0BSD */
/* x where x > alpha, 0 elsewhere, float32: tc_unary_f32.h. */
#ifndef TC_THRESHOLDED_RELU_F32_H
#define TC_THRESHOLDED_RELU_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_thresholded_relu_f32, v > p->alpha ? v : 0.0f)

#endif
