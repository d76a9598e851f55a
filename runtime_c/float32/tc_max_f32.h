/* SPDX-License-Identifier: 0BSD */
/* The larger of two tensors, the first where they are equal, float32: tc_binary_f32.h. */
#ifndef TC_MAX_F32_H
#define TC_MAX_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_max_f32, b > a ? b : a)

#endif
