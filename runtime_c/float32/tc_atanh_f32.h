/* SPDX-License-Identifier: 0BSD */
/* Inverses of hyperbolic tangents, float32: tc_unary_f32.h. */
#ifndef TC_ATANH_F32_H
#define TC_ATANH_F32_H

#include "tc_float_hyperbolic.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_atanh_f32, tc_atanh(v))

#endif
