/* SPDX-License-Identifier: 0BSD */
/* Further instructions of the DSP extension, for signals in int16: pairs of samples in a word, [hi16 :
 * lo16]. */
#ifndef TC_SIGNAL_DSP_H
#define TC_SIGNAL_DSP_H

#include "tc_dsp.h"

#if TC_DSP_ASM

#define TC_SIGNAL_2(name, op)                                               \
    static inline int32_t name(int32_t x, int32_t y)                        \
    {                                                                       \
        int32_t r;                                                          \
        __asm__(op " %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));               \
        return r;                                                           \
    }
TC_SIGNAL_2(tc_smulbb, "smulbb")
TC_SIGNAL_2(tc_smultb, "smultb")
TC_SIGNAL_2(tc_smultt, "smultt")
TC_SIGNAL_2(tc_smuad, "smuad")
TC_SIGNAL_2(tc_sadd16, "sadd16")
TC_SIGNAL_2(tc_ssub16, "ssub16")
TC_SIGNAL_2(tc_sasx, "sasx")
TC_SIGNAL_2(tc_ssax, "ssax")
TC_SIGNAL_2(tc_shadd16, "shadd16")
TC_SIGNAL_2(tc_shsub16, "shsub16")
#undef TC_SIGNAL_2

#define TC_SIGNAL_3(name, op)                                                      \
    static inline int32_t name(int32_t x, int32_t y, int32_t acc)                  \
    {                                                                              \
        int32_t r;                                                                 \
        __asm__(op " %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(acc));        \
        return r;                                                                  \
    }
TC_SIGNAL_3(tc_smlsd, "smlsd")
TC_SIGNAL_3(tc_smladx, "smladx")
#undef TC_SIGNAL_3

static inline int32_t tc_ssat16(int32_t x)
{
    int32_t r;
    __asm__("ssat %0, #16, %1" : "=r"(r) : "r"(x));
    return r;
}

/* [hi of hi : hi of lo] */
static inline int32_t tc_tops(int32_t lo, int32_t hi)
{
    int32_t r;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(r) : "r"(hi), "r"(lo));
    return r;
}

/* [hi of hi : lo of lo] */
static inline int32_t tc_ends(int32_t lo, int32_t hi)
{
    int32_t r;
    __asm__("pkhbt %0, %1, %2" : "=r"(r) : "r"(lo), "r"(hi));
    return r;
}

/* bits 15 to 30 of lo and of hi */
static inline int32_t tc_products(int32_t lo, int32_t hi)
{
    int32_t r;
    __asm__("pkhtb %0, %1, %2, asr #15" : "=r"(r) : "r"((int32_t)((uint32_t)hi << 1)), "r"(lo));
    return r;
}

/* bits 12 to 27 of lo and of hi */
static inline int32_t tc_middles(int32_t lo, int32_t hi)
{
    int32_t r;
    __asm__("pkhtb %0, %1, %2, asr #12" : "=r"(r) : "r"((int32_t)((uint32_t)hi << 4)), "r"(lo));
    return r;
}

/* Both halves without their sign; -32768 stays. */
static inline int32_t tc_magnitudes(int32_t x)
{
    int32_t r;
    __asm__("ssub16 %0, %2, %1\n\tsel %0, %0, %1" : "=&r"(r) : "r"(x), "r"(0) : "cc");
    return r;
}

#else

static inline int32_t tc_smulbb(int32_t x, int32_t y)
{
    return tc_lo16(x) * tc_lo16(y);
}
static inline int32_t tc_smultb(int32_t x, int32_t y)
{
    return tc_hi16(x) * tc_lo16(y);
}
static inline int32_t tc_smultt(int32_t x, int32_t y)
{
    return tc_hi16(x) * tc_hi16(y);
}
/* the sum, or acc and the difference, of the products of halves: low and low, high and high */
static inline int32_t tc_smuad(int32_t x, int32_t y)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_lo16(y) + (int64_t)tc_hi16(x) * tc_hi16(y));
}
static inline int32_t tc_smlsd(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_lo16(y) - (int64_t)tc_hi16(x) * tc_hi16(y) + acc);
}
/* acc and both products of halves: low and high, high and low */
static inline int32_t tc_smladx(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_hi16(y) + (int64_t)tc_hi16(x) * tc_lo16(y) + acc);
}

/* of the halves, modulo 2^16: sums; differences; [sum of hi of x and lo of y : difference of lo of x and hi
 * of y]; the opposite of that; half of sums and of differences, which do not wrap */
static inline int32_t tc_sadd16(int32_t x, int32_t y)
{
    return tc_halves(tc_hi16(x) + tc_hi16(y), tc_lo16(x) + tc_lo16(y));
}
static inline int32_t tc_ssub16(int32_t x, int32_t y)
{
    return tc_halves(tc_hi16(x) - tc_hi16(y), tc_lo16(x) - tc_lo16(y));
}
static inline int32_t tc_sasx(int32_t x, int32_t y)
{
    return tc_halves(tc_hi16(x) + tc_lo16(y), tc_lo16(x) - tc_hi16(y));
}
static inline int32_t tc_ssax(int32_t x, int32_t y)
{
    return tc_halves(tc_hi16(x) - tc_lo16(y), tc_lo16(x) + tc_hi16(y));
}
static inline int32_t tc_shadd16(int32_t x, int32_t y)
{
    return tc_halves((tc_hi16(x) + tc_hi16(y)) >> 1, (tc_lo16(x) + tc_lo16(y)) >> 1);
}
static inline int32_t tc_shsub16(int32_t x, int32_t y)
{
    return tc_halves((tc_hi16(x) - tc_hi16(y)) >> 1, (tc_lo16(x) - tc_lo16(y)) >> 1);
}

static inline int32_t tc_ssat16(int32_t x)
{
    return tc_clamp(x, -32768, 32767);
}
static inline int32_t tc_tops(int32_t lo, int32_t hi)
{
    return tc_halves(hi >> 16, lo >> 16);
}
static inline int32_t tc_ends(int32_t lo, int32_t hi)
{
    return tc_halves(tc_hi16(hi), lo);
}
static inline int32_t tc_products(int32_t lo, int32_t hi)
{
    return tc_halves(hi >> 15, lo >> 15);
}
static inline int32_t tc_middles(int32_t lo, int32_t hi)
{
    return tc_halves(hi >> 12, lo >> 12);
}
static inline int32_t tc_magnitudes(int32_t x)
{
    const int32_t hi = tc_hi16(x), lo = tc_lo16(x);
    return tc_halves(hi < 0 ? -hi : hi, lo < 0 ? -lo : lo);
}

#endif
#endif
