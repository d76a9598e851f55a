/* SPDX-License-Identifier: 0BSD */
/* The k best of int8 elements: tc_top_k.h. */
#ifndef TC_TOP_K_S8_H
#define TC_TOP_K_S8_H

#include "tc_top_k.h"

TC_TOP_K(tc_top_k_s8, int8_t)

#endif
