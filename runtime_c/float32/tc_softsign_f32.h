/* SPDX-License-Identifier: 0BSD */
/* x / (1 + |x|), float32: tc_unary_f32.h. */
#ifndef TC_SOFTSIGN_F32_H
#define TC_SOFTSIGN_F32_H

#include "tc_unary_f32.h"

TC_UNARY_F32(tc_softsign_f32, v / (1.0f + (v < 0.0f ? -v : v)))

#endif
