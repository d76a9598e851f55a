/* SPDX-License-Identifier: 0BSD */
/* Fourier transforms of int16: numbers of Q15. */
#ifndef TC_FOURIER_S16_H
#define TC_FOURIER_S16_H

#include "tc_math.h"

#define TC_F(name) name##_s16
#define TC_F_TYPE tc_fourier_s16_t
#define TC_F_NARROW int16_t
#define TC_F_WIDE int32_t
#define TC_F_BITS 15
#include "tc_fourier.h"
#undef TC_F
#undef TC_F_TYPE
#undef TC_F_NARROW
#undef TC_F_WIDE
#undef TC_F_BITS

#endif
