/* SPDX-License-Identifier: 0BSD */
/* The least integers that are not below, float32: tc_unary_f32.h. */
#ifndef TC_CEIL_F32_H
#define TC_CEIL_F32_H

#include "tc_float_whole.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_ceil_f32, -tc_floor(-v))

#endif
