/* SPDX-License-Identifier: 0BSD */
/* Natural logarithms, float32: tc_unary_f32.h. */
#ifndef TC_LOG_F32_H
#define TC_LOG_F32_H

#include "tc_float_log.h"
#include "tc_unary_f32.h"

TC_UNARY_F32(tc_log_f32, tc_log(v))

#endif
