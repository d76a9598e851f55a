/* SPDX-License-Identifier: 0BSD */
/* x * tanh(log(1 + e^x)), float32: tc_unary_f32.h. */
#ifndef TC_MISH_F32_H
#define TC_MISH_F32_H

#include "tc_float_softplus.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_mish_f32, v * tc_tanh(tc_softplus(v)))

#endif
