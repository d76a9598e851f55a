/* SPDX-License-Identifier: 0BSD */
/* x / (1 + e^(-alpha * x)), float32: tc_unary_f32.h. */
#ifndef TC_SWISH_F32_H
#define TC_SWISH_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_swish_f32, v * tc_sigmoid(p->alpha * v))

#endif
