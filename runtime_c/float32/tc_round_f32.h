/* SPDX-License-Identifier: 0BSD */
/* The nearest integers, of two the even one, float32: tc_unary_f32.h. */
#ifndef TC_ROUND_F32_H
#define TC_ROUND_F32_H

#include "tc_float_whole.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_round_f32, tc_nearest(v))

#endif
