/* SPDX-License-Identifier: 0BSD */
/* The k best of float elements: tc_top_k.h. */
#ifndef TC_TOP_K_F32_H
#define TC_TOP_K_F32_H

#include "tc_top_k.h"

TC_TOP_K(tc_top_k_f32, float)

#endif
