/* SPDX-License-Identifier: 0BSD */
/* int8 widened to int16 and freed of its zero point in one instruction (SXTAB16), with the DSP extension. */
#ifndef TC_CENTRED_H
#define TC_CENTRED_H

#include "tc_dsp.h"

/* What is added: minus the zero point, twice. */
static inline int32_t tc_centred_zeros(int32_t zero)
{
    return (int32_t)((uint32_t)-zero << 16 | ((uint32_t)-zero & 0xffffu));
}

#if TC_DSP_ASM

/* Bytes 0 and 2 of x; bytes 1 and 3. */
static inline int32_t tc_centred(int32_t zeros, int32_t x)
{
    int32_t r;
    __asm__("sxtab16 %0, %1, %2" : "=r"(r) : "r"(zeros), "r"(x));
    return r;
}

static inline int32_t tc_centred_ror8(int32_t zeros, int32_t x)
{
    int32_t r;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(r) : "r"(zeros), "r"(x));
    return r;
}

#else

static inline int32_t tc_centred(int32_t zeros, int32_t x)
{
    return tc_halves(tc_hi16(zeros) + tc_hi16(tc_sxtb16(x)), tc_lo16(zeros) + tc_lo16(tc_sxtb16(x)));
}

static inline int32_t tc_centred_ror8(int32_t zeros, int32_t x)
{
    return tc_halves(tc_hi16(zeros) + tc_hi16(tc_sxtb16_ror8(x)),
                     tc_lo16(zeros) + tc_lo16(tc_sxtb16_ror8(x)));
}

#endif

#endif
