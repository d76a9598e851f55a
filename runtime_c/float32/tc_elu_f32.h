/* SPDX-License-Identifier: 0BSD */
/* x where x >= 0, alpha * (e^x - 1) elsewhere, float32: tc_unary_f32.h. */
#ifndef TC_ELU_F32_H
#define TC_ELU_F32_H

#include "tc_float_exp.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_elu_f32, v >= 0.0f ? v : p->alpha * tc_expm1(v))

#endif
