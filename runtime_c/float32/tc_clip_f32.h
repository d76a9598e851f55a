/* SPDX-License-Identifier: 0BSD */
/* Elements clipped to [lo, hi], float32: tc_unary_f32.h. */
#ifndef TC_CLIP_F32_H
#define TC_CLIP_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_clip_f32, tc_clip(v, tc_float_of(p->lo), tc_float_of(p->hi)))

#endif
