/* SPDX-License-Identifier: 0BSD */
/* x0 where x0 >= 0, x0 * x1 elsewhere, float32: tc_binary_f32.h. */
#ifndef TC_PRELU_F32_H
#define TC_PRELU_F32_H

#include "tc_binary_f32.h"

TC_BINARY_F32(tc_prelu_f32, a >= 0.0f ? a : a * b)

#endif
