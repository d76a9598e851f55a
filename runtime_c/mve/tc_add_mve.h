/* SPDX-License-Identifier: 0BSD */
/* Sum or difference with Helium (MVE), as tc_add_s8.h and tc_add_s16.h define it: four elements at a time.
 *
 * Rounded once, a product's 31 bits may be dropped before the shift rounds; rounded twice, numbers below 0
 * lose 1 before it, unless the shift is by nothing.
 */
#ifndef TC_ADD_MVE_H
#define TC_ADD_MVE_H

#include "tc_mve.h"

typedef struct {
    int32_t x0_start, x0_mult, x0_shifts, x0_shift; /* start: minus the zero point times power; shift: <= 0 */
    int32_t x1_start, x1_mult, x1_shifts, x1_shift; /* shifts: 1 where there is a shift */
    int32_t sign, mult, shift;
    int32_t power, y_zero, y_min, y_max;
} tc_add_mve_line_t;

/* n elements, all of both inputs. */
typedef void tc_add_mve_line_of_t(const tc_add_mve_line_t *p, const void *x0, const void *x1, void *y,
                                  int32_t n);

typedef struct {
    int32_t n0, a0, b0;
    int32_t n1, a1, b1;
    int32_t n2, a2, b2;
    int32_t n3, a3, b3;
    tc_add_mve_line_t line;
    tc_add_mve_line_of_t *of;
} tc_add_mve_t;

#if TC_MVE_ASM

#define TC_ADD_MVE_ONCE(q, fixed) ""
#define TC_ADD_MVE_TWICE(q, fixed) "vshr.s32 q2, " q ", #31 \n" fixed " \n"
#define TC_ADD_MVE_TERM(q, load, product, fix, start, mult, shifts, shift)         \
    load " \n vmlas.s32 " q ", q3, " start " \n " product ".s32 " q ", " q ", " mult " \n" \
        fix(q, "vmla.s32 " q ", q2, " shifts) "vrshl.s32 " q ", " shift " \n"
#define TC_ADD_MVE_LINE(name, load, step, store, product, fix)                     \
    static TC_NAKED void name(const tc_add_mve_line_t *p TC_UNUSED, const void *x0 TC_UNUSED,                \
                              const void *x1 TC_UNUSED, void *y TC_UNUSED, int32_t n TC_UNUSED)              \
    {                                                                              \
        __asm__ volatile(                                                          \
            ".syntax unified \n push {r4-r11, lr} \n vpush {d8-d15} \n mov r12, r0 \n mov r0, r1 \n"         \
            "mov r1, r2 \n mov r2, r3 \n ldrd r3, r4, [r12, #40] \n vdup.32 q7, r3 \n vdup.32 q3, r4 \n"     \
            "ldrd r3, r4, [r12, #48] \n vdup.32 q4, r3 \n vdup.32 q5, r4 \n ldr r3, [r12, #56] \n"           \
            "vdup.32 q6, r3 \n ldr r3, [sp, #100] \n dlstp.32 lr, r3 \n ldrd r3, r4, [r12] \n"               \
            "ldrd r5, r6, [r12, #8] \n ldrd r7, r8, [r12, #16] \n ldrd r9, r10, [r12, #24] \n"               \
            "ldrd r11, r12, [r12, #32] \n"                                         \
            "1: \n"                                                                \
            TC_ADD_MVE_TERM("q0", load " q0, [r0], " step, product, fix, "r3", "r4", "r5", "r6")             \
            TC_ADD_MVE_TERM("q1", load " q1, [r1], " step, product, fix, "r7", "r8", "r9", "r10")            \
            "vmla.s32 q0, q1, r11 \n " product ".s32 q0, q0, r12 \n"               \
            fix("q0", "vadd.i32 q0, q0, q2")                                       \
            "vrshl.s32 q0, q0, q7 \n vadd.i32 q0, q0, q4 \n vmax.s32 q0, q0, q5 \n vmin.s32 q0, q0, q6 \n"   \
            store " q0, [r2], " step " \n letp lr, 1b \n vpop {d8-d15} \n pop {r4-r11, pc} \n");             \
    }
TC_ADD_MVE_LINE(tc_add_mve_once_8, "vldrb.s32", "#4", "vstrb.32", "vqdmulh", TC_ADD_MVE_ONCE)
TC_ADD_MVE_LINE(tc_add_mve_twice_8, "vldrb.s32", "#4", "vstrb.32", "vqrdmulh", TC_ADD_MVE_TWICE)
TC_ADD_MVE_LINE(tc_add_mve_once_16, "vldrh.s32", "#8", "vstrh.32", "vqdmulh", TC_ADD_MVE_ONCE)
TC_ADD_MVE_LINE(tc_add_mve_twice_16, "vldrh.s32", "#8", "vstrh.32", "vqrdmulh", TC_ADD_MVE_TWICE)

#else

static inline int32_t tc_add_mve_element(const tc_add_mve_line_t *p, int32_t x0, int32_t x1, int32_t rounds)
{
    const int32_t t0 = tc_requantize(x0 * p->power + p->x0_start, p->x0_mult, p->x0_shift, rounds);
    const int32_t t1 = tc_requantize(x1 * p->power + p->x1_start, p->x1_mult, p->x1_shift, rounds);
    const int32_t sum = tc_requantize(t0 + p->sign * t1, p->mult, p->shift, rounds);
    return tc_clamp(sum + p->y_zero, p->y_min, p->y_max);
}

#define TC_ADD_MVE_LINE(name, type, rounds)                                                                  \
    static TC_UNUSED void name(const tc_add_mve_line_t *p, const void *x0, const void *x1, void *y,          \
                               int32_t n)                                                                    \
    {                                                                                                        \
        const type *a = (const type *)x0, *b = (const type *)x1;                                             \
        for (int32_t i = 0; i < n; i++) {                                                                    \
            ((type *)y)[i] = (type)tc_add_mve_element(p, a[i], b[i], rounds);                                \
        }                                                                                                    \
    }
TC_ADD_MVE_LINE(tc_add_mve_once_8, int8_t, 1)
TC_ADD_MVE_LINE(tc_add_mve_twice_8, int8_t, 2)
TC_ADD_MVE_LINE(tc_add_mve_once_16, int16_t, 1)
TC_ADD_MVE_LINE(tc_add_mve_twice_16, int16_t, 2)

#endif

#define TC_ADD_MVE_SOME 64 /* elements of a line of which one input has but one number */

#endif
