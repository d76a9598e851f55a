/* SPDX-License-Identifier: 0BSD */
/* 1 / (1 + e^-x), float32: tc_unary_f32.h. */
#ifndef TC_SIGMOID_F32_H
#define TC_SIGMOID_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_sigmoid_f32, tc_sigmoid(v))

#endif
