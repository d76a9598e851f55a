/* SPDX-License-Identifier: 0BSD */
/* tc_depthwise_conv2d_s8_taps.h with int4 weights. */
#ifndef TC_DEPTHWISE_CONV2D_S8_W4_TAPS_H
#define TC_DEPTHWISE_CONV2D_S8_W4_TAPS_H

#include "tc_depthwise_conv2d_s8_taps.h"

#endif
