/* SPDX-License-Identifier: 0BSD */
/* The largest along an axis, float32: tc_reduce_f32.h. */
#ifndef TC_REDUCE_MAX_F32_H
#define TC_REDUCE_MAX_F32_H

#include "tc_reduce_f32.h"

TC_REDUCE_F32(tc_reduce_max_f32, x[i], v > acc ? v : acc, acc)

#endif
