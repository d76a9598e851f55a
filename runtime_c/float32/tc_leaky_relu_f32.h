/* SPDX-License-Identifier: 0BSD */
/* x where x > 0, alpha * x elsewhere, float32: tc_unary_f32.h. */
#ifndef TC_LEAKY_RELU_F32_H
#define TC_LEAKY_RELU_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_leaky_relu_f32, v > 0.0f ? v : v * p->alpha)

#endif
