/* SPDX-License-Identifier: 0BSD */
/* Inverses of hyperbolic cosines, float32: tc_unary_f32.h. */
#ifndef TC_ACOSH_F32_H
#define TC_ACOSH_F32_H

#include "tc_float_hyperbolic.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_acosh_f32, tc_acosh(v))

#endif
