/* SPDX-License-Identifier: 0BSD */
/* 1, 0 or -1, float32: tc_unary_f32.h. */
#ifndef TC_SIGN_F32_H
#define TC_SIGN_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_sign_f32, v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v)

#endif
