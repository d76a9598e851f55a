/* SPDX-License-Identifier: 0BSD */
/* Sines, float32: tc_unary_f32.h. */
#ifndef TC_SIN_F32_H
#define TC_SIN_F32_H

#include "tc_float_turn.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_sin_f32, tc_sin_or_cos(v, 0))

#endif
