/* SPDX-License-Identifier: 0BSD */
/* Hyperbolic cosines, float32: tc_unary_f32.h. */
#ifndef TC_COSH_F32_H
#define TC_COSH_F32_H

#include "tc_float_hyperbolic.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_cosh_f32, tc_cosh(v))

#endif
