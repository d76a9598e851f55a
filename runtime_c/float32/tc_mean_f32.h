/* SPDX-License-Identifier: 0BSD */
/* Means along an axis, float32: tc_reduce_f32.h. */
#ifndef TC_MEAN_F32_H
#define TC_MEAN_F32_H

#include "tc_reduce_f32.h"

TC_REDUCE_F32(tc_mean_f32, 0.0f, acc + v, acc / p->count)

#endif
