/* SPDX-License-Identifier: 0BSD */
/* log(1 + e^x), float32: tc_unary_f32.h. */
#ifndef TC_SOFTPLUS_F32_H
#define TC_SOFTPLUS_F32_H

#include "tc_float_softplus.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_softplus_f32, tc_softplus(v))

#endif
