/* SPDX-License-Identifier: 0BSD */
/* Product of two int8 tensors on cores with DSP or vectors: the bytes of tc_mul_s8 and tc_mul_f32_s8, where
 * the compiler proves that
 *
 *   tc_mul_<lines>_<n>:       y = saturate(SMMLA(product + start, mult, add) >> n)
 *   tc_mul_<lines>_twice_<n>: y = saturate((SMMLAR(t, mult, add) - (t < 0)) >> n), t = 2 * (product + start)
 *
 * with product = (x0 - x0_zero) * (x1 - x1_zero) gives them for every product. <lines>: `pairs` of numbers
 * from two lines, or a line and one `number` of x1.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and b<k> in
 * x1, 0 where that input repeats; in n3 x0 moves by 1, x1 as `line` does. y may be an input that does not
 * repeat. No scratch.
 */
#ifndef TC_MUL_LINES_H
#define TC_MUL_LINES_H

#include "tc_centred.h"

typedef struct tc_mul_s8_dsp_s tc_mul_s8_dsp_t;
typedef void tc_mul_line_t(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y);

struct tc_mul_s8_dsp_s {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3;
    int32_t x0_zero, x1_zero;
    int32_t mult, add, start;
    tc_mul_line_t *line;
};

/* From a product (`times` 2: twice it) with start added to int8. */
typedef int8_t tc_mul_finish_t(int32_t sum, int32_t mult, int32_t add);

#if TC_DSP_ASM

/* The empty asm keeps compilers from gathering four bytes with a BFI each to save three stores. */
#define TC_MUL_STORE(y, to)                                                        \
    do {                                                                           \
        (y) = (to);                                                                \
        __asm__ __volatile__("" ::: "memory");                                     \
    } while (0)

#define TC_MUL_SATURATED(t, n) /* SSAT shifts as well */                           \
    int32_t r;                                                                     \
    __asm__("ssat %0, #8, %1, asr #" #n : "=r"(r) : "r"(t));                       \
    return (int8_t)r;

static inline int32_t tc_mul_doubled(int32_t halves)
{
    int32_t r;
    __asm__("sadd16 %0, %1, %1" : "=r"(r) : "r"(halves));
    return r;
}

#else

#define TC_MUL_STORE(y, to) ((y) = (to))
#define TC_MUL_SATURATED(t, n) return (int8_t)tc_ssat8((t) >> (n));

static inline int32_t tc_mul_doubled(int32_t halves)
{
    return tc_halves(2 * tc_hi16(halves), 2 * tc_lo16(halves));
}

#endif

/* Of x0: a sum is doubled where its factor is, for half an instruction. */
TC_INLINE int32_t tc_mul_times(int32_t halves, int32_t times)
{
    return times == 2 ? tc_mul_doubled(halves) : halves;
}

typedef struct {
    int32_t zeros0, zeros1, number; /* number: of x1, for both halves */
    int32_t mult, add, start;
    int32_t one, times;
} tc_mul_numbers_t;

/* Four products. All are read before one is written. */
TC_INLINE void tc_mul_four(const tc_mul_numbers_t *k, const int8_t *x0, const int8_t *x1, int8_t *y,
                           tc_mul_finish_t *finish)
{
    const int32_t v0 = tc_load4(x0), v1 = k->one ? 0 : tc_load4(x1);
    const int32_t even1 = k->one ? k->number : tc_mul_times(tc_centred(k->zeros1, v1), k->times);
    const int32_t odd1 = k->one ? k->number : tc_mul_times(tc_centred_ror8(k->zeros1, v1), k->times);
    const int32_t even0 = tc_centred(k->zeros0, v0), odd0 = tc_centred_ror8(k->zeros0, v0);

    TC_MUL_STORE(y[0], finish(tc_smlabb(even0, even1, k->start), k->mult, k->add));
    TC_MUL_STORE(y[1], finish(tc_smlabb(odd0, odd1, k->start), k->mult, k->add));
    TC_MUL_STORE(y[2], finish(tc_smlatt(even0, even1, k->start), k->mult, k->add));
    TC_MUL_STORE(y[3], finish(tc_smlatt(odd0, odd1, k->start), k->mult, k->add));
}

/* n3 products; one: x1 is one number for all. */
TC_INLINE void tc_mul_line(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y,
                           int32_t one, int32_t times, tc_mul_finish_t *finish)
{
    const int32_t zeros0 = tc_centred_zeros(p->x0_zero), zeros1 = tc_centred_zeros(p->x1_zero);
    const int32_t number = one ? tc_centred_zeros(times * (p->x1_zero - x1[0])) : 0;
    const tc_mul_numbers_t k = {zeros0, zeros1, number, p->mult, p->add, times * p->start, one, times};
    int32_t n = p->n3;

    for (; n >= 8; n -= 8, x0 += 8, x1 += one ? 0 : 8, y += 8) {
        tc_mul_four(&k, x0, x1, y, finish);
        tc_mul_four(&k, x0 + 4, x1 + 4, y + 4, finish);
    }
    if (n >= 4) {
        tc_mul_four(&k, x0, x1, y, finish);
        n -= 4, x0 += 4, x1 += one ? 0 : 4, y += 4;
    }
    for (; n > 0; n--, x0++, x1 += !one, y++) {
        const int32_t product = times * (x0[0] - p->x0_zero) * (x1[0] - p->x1_zero);
        TC_MUL_STORE(y[0], finish(product + k.start, k.mult, k.add));
    }
}

#define TC_MUL_LINE(name, n, one, times, finish)                                                             \
    static TC_UNUSED void name##_##n(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1,           \
                                     int8_t *y)                                                              \
    {                                                                                                        \
        tc_mul_line(p, x0, x1, y, one, times, finish##_##n);                                                 \
    }

#define TC_MUL_SHIFT(n)                                                                                      \
    TC_INLINE int8_t tc_mul_once_##n(int32_t sum, int32_t mult, int32_t add)                                 \
    {                                                                                                        \
        TC_MUL_SATURATED(tc_smmla(sum, mult, add), n)                                                        \
    }                                                                                                        \
    TC_INLINE int8_t tc_mul_twice_##n(int32_t sum, int32_t mult, int32_t add)                                \
    {                                                                                                        \
        TC_MUL_SATURATED(tc_smmlar(sum, mult, add + (sum >> 31)), n)                                         \
    }                                                                                                        \
    TC_MUL_LINE(tc_mul_pairs, n, 0, 1, tc_mul_once)                                                          \
    TC_MUL_LINE(tc_mul_pairs_twice, n, 0, 2, tc_mul_twice)                                                   \
    TC_MUL_LINE(tc_mul_number, n, 1, 1, tc_mul_once)                                                         \
    TC_MUL_LINE(tc_mul_number_twice, n, 1, 2, tc_mul_twice)

TC_MUL_SHIFT(1)
TC_MUL_SHIFT(2)
TC_MUL_SHIFT(3)
TC_MUL_SHIFT(4)
TC_MUL_SHIFT(5)
TC_MUL_SHIFT(6)
TC_MUL_SHIFT(7)
TC_MUL_SHIFT(8)
TC_MUL_SHIFT(9)
TC_MUL_SHIFT(10)
TC_MUL_SHIFT(11)
TC_MUL_SHIFT(12)
TC_MUL_SHIFT(13)
TC_MUL_SHIFT(14)
TC_MUL_SHIFT(15)
TC_MUL_SHIFT(16)
#undef TC_MUL_SHIFT
#undef TC_MUL_LINE
#undef TC_MUL_SATURATED
#undef TC_MUL_STORE

/* The loops around the lines. */
TC_INLINE void tc_mul_lines(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y,
                            tc_mul_line_t *line)
{
    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            for (int32_t i2 = 0; i2 < p->n2; i2++, y += p->n3) {
                const int8_t *a = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;
                const int8_t *b = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;
                line(p, a, b, y);
            }
        }
    }
}

/* With the function of the shift. */
static TC_UNUSED void tc_mul_s8_dsp(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    tc_mul_lines(p, x0, x1, y, p->line);
}

#endif
