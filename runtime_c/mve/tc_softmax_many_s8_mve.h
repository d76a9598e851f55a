/* SPDX-License-Identifier: 0BSD */
/* tc_softmax_many_s8.h with Helium (MVE): four exponentials gathered from the table at a time. Same results;
 * y may be x. */
#ifndef TC_SOFTMAX_MANY_S8_MVE_H
#define TC_SOFTMAX_MANY_S8_MVE_H

#include "tc_mve.h"
#include "tc_softmax_many_s8.h"

#if TC_MVE_ASM

typedef char tc_softmax_many_mve_reads[__builtin_offsetof(tc_softmax_many_row_t, half) == 8 ? 1 : -1];

/* The sum of the exponentials of n int8, each in steps of 2^12; e: where those of the row begin. */
static TC_NAKED uint32_t tc_softmax_many_mve_sum(const int32_t *exps TC_UNUSED, const int8_t *x TC_UNUSED,
                                                 int32_t n TC_UNUSED, const int32_t **e TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "mov    r4, r1\n"
        "mvn    r12, #127\n"
        "wlstp.8 lr, r2, 2f\n"
        "1:\n"
        "vldrb.u8 q0, [r4], #16\n"
        "vmaxv.s8 r12, q0\n"
        "letp   lr, 1b\n"
        "2:\n"
        "addw   r0, r0, #1020\n"
        "sub    r0, r0, r12, lsl #2\n"
        "str    r0, [r3]\n"
        "movs   r4, #0\n"
        "wlstp.32 lr, r2, 4f\n"
        "3:\n"
        "vldrb.s32 q0, [r1], #4\n"
        "vldrw.u32 q1, [r0, q0, uxtw #2]\n"
        "vrshr.u32 q1, q1, #12\n"
        "vaddva.u32 r4, q1\n"
        "letp   lr, 3b\n"
        "4:\n"
        "mov    r0, r4\n"
        "pop    {r4, pc}\n");
}

/* Registers: r4 e, r6 half, r7 minus shift, r8 from where on 2^30 carries, r12 1; q2 255, q3 scale. */
#define TC_SOFTMAX_MANY_MVE_ENTER                                                  \
    ".syntax unified \n push {r4-r8, lr} \n ldrd r4, r5, [r0] \n ldrd r6, r7, [r0, #8] \n"                   \
    "vdup.32 q3, r5 \n movs r5, #255 \n vdup.32 q2, r5 \n rsb r7, r7, #0 \n mov r8, #0xC0000000 \n" \
    "mov r12, #1 \n"
/* From exponentials in q1 to shares of at most 255; q0 is lost, and the predicate. */
#define TC_SOFTMAX_MANY_MVE_SHARES                                                 \
    "vmul.i32 q0, q1, q3 \n vmulh.u32 q1, q1, q3 \n vcmp.u32 cs, q0, r8 \n vpst \n" \
    "vaddt.i32 q1, q1, r12 \n vadd.i32 q1, q1, r6 \n vshl.u32 q1, r7 \n vmin.u32 q1, q1, q2 \n"

/* The shares of n int8, at most 255, and zeros up to the end of the last eight. */
static TC_NAKED void tc_softmax_many_mve_shares(const tc_softmax_many_row_t *row TC_UNUSED,
                                                const int8_t *x TC_UNUSED, int32_t n TC_UNUSED,
                                                int16_t *xs TC_UNUSED)
{
    __asm__ volatile(TC_SOFTMAX_MANY_MVE_ENTER
        "add    r5, r2, #7\n"
        "lsrs   r5, r5, #3\n"
        "lsl    lr, r5, #1\n"
        "1:\n"
        "vctp.32 r2\n"
        "vpstt\n"
        "vldrbt.s32 q0, [r1], #4\n"
        "vldrwt.u32 q1, [r4, q0, uxtw #2]\n"
        TC_SOFTMAX_MANY_MVE_SHARES
        "sub    r2, r2, #4\n"
        "usat   r2, #16, r2\n"
        "vstrh.32 q1, [r3], #8\n"
        "le     lr, 1b\n"
        "pop    {r4-r8, pc}\n");
}

/* The shares less 128, n int8. */
static TC_NAKED void tc_softmax_many_mve_bytes(const tc_softmax_many_row_t *row TC_UNUSED,
                                               const int8_t *x TC_UNUSED, int32_t n TC_UNUSED,
                                               int8_t *y TC_UNUSED)
{
    __asm__ volatile(TC_SOFTMAX_MANY_MVE_ENTER
        "movs   r5, #128\n"
        "wlstp.32 lr, r2, 2f\n"
        "1:\n"
        "vldrb.s32 q0, [r1], #4\n"
        "vldrw.u32 q1, [r4, q0, uxtw #2]\n"
        TC_SOFTMAX_MANY_MVE_SHARES
        "vsub.i32 q1, q1, r5\n"
        "vstrb.32 q1, [r3], #4\n"
        "letp   lr, 1b\n"
        "2:\n"
        "pop    {r4-r8, pc}\n");
}

static inline tc_softmax_many_row_t tc_softmax_many_mve_begin(const int32_t *exps, const int8_t *x, int32_t n,
                                                              uint32_t whole)
{
    const int32_t *e;
    const uint32_t sum = tc_softmax_many_mve_sum(exps, x, n, &e);
    return tc_softmax_many_of(e, sum, whole);
}

#else

static inline tc_softmax_many_row_t tc_softmax_many_mve_begin(const int32_t *exps, const int8_t *x, int32_t n,
                                                              uint32_t whole)
{
    return tc_softmax_many_begin(exps, x, n, whole);
}

static inline void tc_softmax_many_mve_shares(const tc_softmax_many_row_t *row, const int8_t *x, int32_t n,
                                              int16_t *xs)
{
    for (int32_t i = 0; i < ((n + 7) & ~7); i++) {
        const int32_t share = i < n ? tc_softmax_many_share(row, x[i]) : 0;
        xs[i] = (int16_t)(share > 255 ? 255 : share);
    }
}

static inline void tc_softmax_many_mve_bytes(const tc_softmax_many_row_t *row, const int8_t *x, int32_t n,
                                             int8_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = tc_softmax_many_cut_off(tc_softmax_many_share(row, x[i]));
    }
}

#endif

static TC_UNUSED void tc_softmax_many_mve_rows(const tc_softmax_many_s8_t *p, uint32_t whole, const int8_t *x,
                                               int8_t *y)
{
    for (int32_t o = 0; o < p->outer; o++, x += p->depth, y += p->depth) {
        const tc_softmax_many_row_t row = tc_softmax_many_mve_begin(p->exps, x, p->depth, whole);
        tc_softmax_many_mve_bytes(&row, x, p->depth, y);
    }
}

static TC_UNUSED void tc_softmax_many_s8_mve(const tc_softmax_many_s8_t *p, const int8_t *x, int8_t *y)
{
    tc_softmax_many_mve_rows(p, 0, x, y);
}

#endif
