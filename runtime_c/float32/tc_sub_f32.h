/* SPDX-License-Identifier: 0BSD */
/* Difference of two tensors, float32: tc_binary_f32.h. */
#ifndef TC_SUB_F32_H
#define TC_SUB_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_sub_f32, a - b)

#endif
