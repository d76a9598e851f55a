/* SPDX-License-Identifier: 0BSD */
/* Cosines, float32: tc_unary_f32.h. */
#ifndef TC_COS_F32_H
#define TC_COS_F32_H

#include "tc_float_turn.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_cos_f32, tc_sin_or_cos(v, 1))

#endif
