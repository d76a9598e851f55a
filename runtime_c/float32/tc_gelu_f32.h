/* SPDX-License-Identifier: 0BSD */
/* x / 2 * (1 + erf(x / sqrt(2))), float32: tc_unary_f32.h. */
#ifndef TC_GELU_F32_H
#define TC_GELU_F32_H

#include "tc_float_erf.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_gelu_f32, (0.5f * v) * (1.0f + tc_erf(v * 0.70710678118654752f)))

#endif
