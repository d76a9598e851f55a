/* SPDX-License-Identifier: 0BSD */
/* The smaller of two tensors, the first where they are equal, float32: tc_binary_f32.h. */
#ifndef TC_MIN_F32_H
#define TC_MIN_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_min_f32, b < a ? b : a)

#endif
