/* SPDX-License-Identifier: 0BSD */
/* Product of two int8 tensors with the DSP extension: the bytes of tc_mul_s8 and tc_mul_f32_s8, where the
 * compiler proves that
 *
 *   once:   y = saturate(SMMLA(product + start, mult, add) >> shift)
 *   twice:  y = saturate((SMMLAR(t, mult, add) - (t < 0)) >> shift), t = 2 * (product + start)
 *
 * with product = (x0 - x0_zero) * (x1 - x1_zero) gives them for every product.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and b<k> in
 * x1, 0 where that input repeats; a3 is 1, b3 1 or 0. y may be an input that does not repeat. No scratch.
 */
#ifndef TC_MUL_S8_DSP_H
#define TC_MUL_S8_DSP_H

#include "tc_centred.h"

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, b3;
    int32_t x0_zero, x1_zero;
    int32_t mult, add, start, shift, twice;
} tc_mul_s8_dsp_t;

typedef struct {
    int32_t mult, add, start, shift;
} tc_mul_dsp_requant_t;

TC_INLINE int8_t tc_mul_dsp_scaled(tc_mul_dsp_requant_t requant, int32_t sum, int32_t twice)
{
    const int32_t t = twice ? tc_smmlar(2 * sum, requant.mult, requant.add + (sum >> 31))
                            : tc_smmla(sum, requant.mult, requant.add);
    return (int8_t)tc_ssat8(t >> requant.shift);
}

/* The empty asm keeps compilers from gathering four bytes with a BFI each to save three stores. */
#if TC_DSP_ASM
#define TC_MUL_STORE(i, sum)                                        \
    do {                                                            \
        y[i] = tc_mul_dsp_scaled(requant, sum, twice);              \
        __asm__ __volatile__("" ::: "memory");                      \
    } while (0)
#else
#define TC_MUL_STORE(i, sum) (y[i] = tc_mul_dsp_scaled(requant, sum, twice))
#endif

/* n products; one: x1 is one number for all. Four elements are read before one is written. */
TC_INLINE void tc_mul_dsp_line(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y,
                               int32_t one, int32_t twice)
{
    const tc_mul_dsp_requant_t requant = {p->mult, p->add, p->start, p->shift};
    const int32_t zeros0 = tc_centred_zeros(p->x0_zero), zeros1 = tc_centred_zeros(p->x1_zero);
    const int32_t number = one ? tc_centred_zeros(p->x1_zero - x1[0]) : 0;
    int32_t n = p->n3;

    for (; n >= 4; n -= 4, x0 += 4, x1 += one ? 0 : 4, y += 4) {
        const int32_t v0 = tc_load4(x0), v1 = one ? 0 : tc_load4(x1);
        const int32_t even0 = tc_centred(zeros0, v0), odd0 = tc_centred_ror8(zeros0, v0);
        const int32_t even1 = one ? number : tc_centred(zeros1, v1),
            odd1 = one ? number : tc_centred_ror8(zeros1, v1);
        TC_MUL_STORE(0, tc_smlabb(even0, even1, requant.start));
        TC_MUL_STORE(1, tc_smlabb(odd0, odd1, requant.start));
        TC_MUL_STORE(2, tc_smlatt(even0, even1, requant.start));
        TC_MUL_STORE(3, tc_smlatt(odd0, odd1, requant.start));
    }
    for (; n > 0; n--, x0++, x1 += !one, y++) {
        TC_MUL_STORE(0, (x0[0] - p->x0_zero) * (x1[0] - p->x1_zero) + requant.start);
    }
}
#undef TC_MUL_STORE

static void tc_mul_s8_dsp_lines(const tc_mul_s8_dsp_t *p, const int8_t *a, const int8_t *b, int8_t *y)
{
    if (p->twice) {
        if (p->b3) tc_mul_dsp_line(p, a, b, y, 0, 1);
        else tc_mul_dsp_line(p, a, b, y, 1, 1);
    } else {
        if (p->b3) tc_mul_dsp_line(p, a, b, y, 0, 0);
        else tc_mul_dsp_line(p, a, b, y, 1, 0);
    }
}

static void tc_mul_s8_dsp(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++, y += p->n3) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                tc_mul_s8_dsp_lines(p, a, b, y);
            }
        }
    }
}

#endif
