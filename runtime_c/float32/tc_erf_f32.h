/* SPDX-License-Identifier: 0BSD */
/* The error function, float32: tc_unary_f32.h. */
#ifndef TC_ERF_F32_H
#define TC_ERF_F32_H

#include "tc_float_erf.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_erf_f32, tc_erf(v))

#endif
