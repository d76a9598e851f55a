/* SPDX-License-Identifier: 0BSD */
/* The k best of int32 elements: tc_top_k.h. */
#ifndef TC_TOP_K_S32_H
#define TC_TOP_K_S32_H

#include "tc_top_k.h"

TC_TOP_K(tc_top_k_s32, int32_t)

#endif
