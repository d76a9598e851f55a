/* SPDX-License-Identifier: 0BSD */
/* Angles of tangents, float32: tc_unary_f32.h. */
#ifndef TC_ATAN_F32_H
#define TC_ATAN_F32_H

#include "tc_float_arc.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_atan_f32, tc_atan(v))

#endif
