/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int8 tensors of one shape, in the linear form without a clamp of its own.
 *
 *   y[i] = saturate((a * x0[i] + b * x1[i] + c) >> shift) to int8
 *
 * As tc_add_linear_s8 with y_zero 0, y_min -128, y_max 127: same bytes. The saturating shift is one
 * instruction, but its amount is part of the opcode: call with a literal, 9..30. y may be x0 or x1. No
 * scratch.
 */
#ifndef TC_ADD_LINEAR_S8_DSP_H
#define TC_ADD_LINEAR_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    int32_t n, a, b, c;
} tc_add_linear_s8_dsp_t;

#define tc_add_linear_s8_dsp(p, x0, x1, y, shift) tc_add_linear_s8_dsp_##shift(p, x0, x1, y)

#if TC_DSP_ASM
#define TC_ADD_SATURATE(q, acc, shift) __asm__("ssat %0, #8, %1, asr #" #shift : "=r"(q) : "r"(acc))
#else
#define TC_ADD_SATURATE(q, acc, shift) (q) = tc_ssat8((acc) >> (shift))
#endif

/* The empty asm keeps compilers from gathering four bytes with a BFI each to save three stores. */
#if TC_DSP_ASM
#define TC_ADD_STORE(y, q)                                                                          \
    do {                                                                                            \
        *(y)++ = (int8_t)(q);                                                                       \
        __asm__ __volatile__("" ::: "memory");                                                      \
    } while (0)
#else
#define TC_ADD_STORE(y, q) (*(y)++ = (int8_t)(q))
#endif

/* All loads of four elements come before their stores: cheaper in order, and y may be an input. */
#define TC_ADD_FOUR(shift)                                                                          \
    do {                                                                                            \
        const int32_t a0 = x0[0], a1 = x0[1], a2 = x0[2], a3 = x0[3];                               \
        const int32_t b0 = x1[0], b1 = x1[1], b2 = x1[2], b3 = x1[3];                               \
        x0 += 4;                                                                                    \
        x1 += 4;                                                                                    \
        TC_ADD_STORE(y, tc_add_linear_q_##shift(p, a0, b0));                                        \
        TC_ADD_STORE(y, tc_add_linear_q_##shift(p, a1, b1));                                        \
        TC_ADD_STORE(y, tc_add_linear_q_##shift(p, a2, b2));                                        \
        TC_ADD_STORE(y, tc_add_linear_q_##shift(p, a3, b3));                                        \
    } while (0)

#define TC_ADD_LINEAR(shift)                                                                        \
    static inline int32_t tc_add_linear_q_##shift(const tc_add_linear_s8_dsp_t *p, int32_t a, int32_t b)\
    {                                                                                               \
        int32_t q;                                                                                  \
        TC_ADD_SATURATE(q, p->b * b + (p->a * a + p->c), shift);                                    \
        return q;                                                                                   \
    }                                                                                               \
    static inline void tc_add_linear_s8_dsp_##shift(const tc_add_linear_s8_dsp_t *p, const int8_t *x0,\
                                                    const int8_t *x1, int8_t *y)                    \
    {                                                                                               \
        int32_t n = p->n;                                                                           \
        for (; n >= 8; n -= 8) {                                                                    \
            TC_ADD_FOUR(shift);                                                                     \
            TC_ADD_FOUR(shift);                                                                     \
        }                                                                                           \
        for (; n > 0; n--) {                                                                        \
            TC_ADD_STORE(y, tc_add_linear_q_##shift(p, *x0++, *x1++));                              \
        }                                                                                           \
    }

TC_ADD_LINEAR(9)
TC_ADD_LINEAR(10)
TC_ADD_LINEAR(11)
TC_ADD_LINEAR(12)
TC_ADD_LINEAR(13)
TC_ADD_LINEAR(14)
TC_ADD_LINEAR(15)
TC_ADD_LINEAR(16)
TC_ADD_LINEAR(17)
TC_ADD_LINEAR(18)
TC_ADD_LINEAR(19)
TC_ADD_LINEAR(20)
TC_ADD_LINEAR(21)
TC_ADD_LINEAR(22)
TC_ADD_LINEAR(23)
TC_ADD_LINEAR(24)
TC_ADD_LINEAR(25)
TC_ADD_LINEAR(26)
TC_ADD_LINEAR(27)
TC_ADD_LINEAR(28)
TC_ADD_LINEAR(29)
TC_ADD_LINEAR(30)
#undef TC_ADD_LINEAR
#undef TC_ADD_FOUR
#undef TC_ADD_SATURATE
#undef TC_ADD_STORE

#endif
