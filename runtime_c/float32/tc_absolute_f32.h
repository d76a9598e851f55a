/* SPDX-License-Identifier: 0BSD */
/* Absolute values, float32: tc_unary_f32.h. */
#ifndef TC_ABSOLUTE_F32_H
#define TC_ABSOLUTE_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_absolute_f32, tc_float_of(tc_bits_of(v) & 0x7fffffff))

#endif
