/* SPDX-License-Identifier: 0BSD */
/* e^x, float32: tc_unary_f32.h. */
#ifndef TC_EXP_F32_H
#define TC_EXP_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_exp_f32, tc_exp(v))

#endif
