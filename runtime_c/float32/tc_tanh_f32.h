/* SPDX-License-Identifier: 0BSD */
/* Hyperbolic tangent, float32: tc_unary_f32.h. */
#ifndef TC_TANH_F32_H
#define TC_TANH_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_tanh_f32, tc_tanh(v))

#endif
