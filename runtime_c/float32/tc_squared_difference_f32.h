/* SPDX-License-Identifier: 0BSD */
/* Square of the difference of two tensors, float32: tc_binary_f32.h. */
#ifndef TC_SQUARED_DIFFERENCE_F32_H
#define TC_SQUARED_DIFFERENCE_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_squared_difference_f32, (a - b) * (a - b))

#endif
