/* SPDX-License-Identifier: 0BSD */
/* The largest integers that are not above, float32: tc_unary_f32.h. */
#ifndef TC_FLOOR_F32_H
#define TC_FLOOR_F32_H

#include "tc_float_whole.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_floor_f32, tc_floor(v))

#endif
