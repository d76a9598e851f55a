/* SPDX-License-Identifier: 0BSD */
/* Product of two tensors, element by element, float32: tc_binary_f32.h. */
#ifndef TC_MUL_F32_H
#define TC_MUL_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_mul_f32, a * b)

#endif
