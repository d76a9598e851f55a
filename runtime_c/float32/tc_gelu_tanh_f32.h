/* SPDX-License-Identifier: 0BSD */
/* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), float32: tc_unary_f32.h. */
#ifndef TC_GELU_TANH_F32_H
#define TC_GELU_TANH_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_gelu_tanh_f32, (0.5f * v) * (1.0f + tc_tanh(0.7978845608028654f * tc_fma(0.044715f * v, v * v,
    v))))

#endif
