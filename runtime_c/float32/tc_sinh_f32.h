/* SPDX-License-Identifier: 0BSD */
/* Hyperbolic sines, float32: tc_unary_f32.h. */
#ifndef TC_SINH_F32_H
#define TC_SINH_F32_H

#include "tc_float_hyperbolic.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_sinh_f32, tc_sinh(v))

#endif
