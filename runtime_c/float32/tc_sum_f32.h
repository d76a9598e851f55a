/* SPDX-License-Identifier: 0BSD */
/* Sums along an axis, float32: tc_reduce_f32.h. */
#ifndef TC_SUM_F32_H
#define TC_SUM_F32_H

#include "tc_reduce_f32.h"

TC_REDUCE_F32(tc_sum_f32, 0.0f, acc + v, acc)

#endif
