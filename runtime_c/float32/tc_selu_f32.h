/* SPDX-License-Identifier: 0BSD */
/* The scaled exponential linear unit, float32: tc_unary_f32.h. */
#ifndef TC_SELU_F32_H
#define TC_SELU_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_selu_f32, 1.0507009873554805f * (v >= 0.0f ? v : 1.6732632423543772f * tc_expm1(v)))

#endif
