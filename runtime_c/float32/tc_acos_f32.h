/* SPDX-License-Identifier: 0BSD */
/* Angles of cosines, float32: tc_unary_f32.h. */
#ifndef TC_ACOS_F32_H
#define TC_ACOS_F32_H

#include "tc_float_arc.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_acos_f32, tc_acos(v))

#endif
