/* SPDX-License-Identifier: 0BSD */
/* x * min(max(x + 3, 0), 6) / 6, float32: tc_unary_f32.h. */
#ifndef TC_HARD_SWISH_F32_H
#define TC_HARD_SWISH_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_hard_swish_f32, v * tc_clip(v + 3.0f, 0.0f, 6.0f) / 6.0f)

#endif
