/* SPDX-License-Identifier: 0BSD */
/* Fourier transforms of int32: numbers of Q31. */
#ifndef TC_FOURIER_S32_H
#define TC_FOURIER_S32_H

#include "tc_math.h"

#define TC_F(name) name##_s32
#define TC_F_TYPE tc_fourier_s32_t
#define TC_F_NARROW int32_t
#define TC_F_WIDE int64_t
#define TC_F_BITS 31
#include "tc_fourier.h"
#undef TC_F
#undef TC_F_TYPE
#undef TC_F_NARROW
#undef TC_F_WIDE
#undef TC_F_BITS

#endif
