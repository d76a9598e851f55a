/* SPDX-License-Identifier: 0BSD */
/* Tangents, float32: tc_unary_f32.h. */
#ifndef TC_TAN_F32_H
#define TC_TAN_F32_H

#include "tc_float_arc.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_tan_f32, tc_tan(v))

#endif
