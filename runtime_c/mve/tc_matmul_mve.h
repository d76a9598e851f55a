/* SPDX-License-Identifier: 0BSD */
/* Products of two int8 matrices that are computed, with Helium (MVE): what the operators that have such
 * share.
 *
 * Both sides are widened to int16 with the zero point taken off, eight steps of the sum at a time, zeros
 * behind the end:
 *   xs: two rows of the left side, one after the other
 *   ys: the right side by four columns, zeros for columns beyond the last; of each eight steps eight numbers
 *       of each column
 *
 * From a sum to int8, which the compiler proves equal to the layer's definition for every sum that can be:
 *   y = saturate((t * mult >> 32) + add >> shift), t = sum + start; with `twice` t = 2 * (sum + start), the
 *   high word is rounded and loses 1 where t is below 0
 */
#ifndef TC_MATMUL_MVE_H
#define TC_MATMUL_MVE_H

#include "tc_s16_mve.h"

typedef struct {
    int32_t mult, add, start, minus_shift, twice;
} tc_matmul_mve_t;

/* All columns of two rows y0 and y1, which may be the same where both rows of xs are. */
typedef struct {
    const int16_t *xs, *ys;
    int32_t eights, cols;
    int8_t *y0, *y1;
} tc_matmul_mve_job_t;

/* How numbers are walked: elements from one to the next, and in the end bytes from eight to eight. */
typedef struct {
    int32_t next, zero, eights, apart;
} tc_matmul_mve_walk_t;

#define TC_MATMUL_MVE_MOST 8191 /* elements that a gather reaches from one to the next */

#if TC_MVE_ASM

/* Words on the stack: p, job, eights, y1. */
static TC_NAKED void tc_matmul_mve_rows(const tc_matmul_mve_t *p TC_UNUSED,
                                        const tc_matmul_mve_job_t *job TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r0-r11, lr}\n"
        "mov    r11, r1\n"
        "ldrd   r1, r5, [r11]\n"
        "ldrd   r3, r9, [r11, #8]\n"
        "ldrd   r7, r12, [r11, #16]\n"
        "str    r3, [sp, #8]\n"
        "str    r12, [sp, #12]\n"
        "mov    r11, r3\n"
        "add    r3, r1, r3, lsl #4\n"
        TC_S16_MVE_DOTS_2
        "ldr    r11, [sp]\n"
        "ldrd   r0, r2, [r11]\n"
        "ldrd   r4, r6, [r11, #8]\n"
        "ldr    r8, [r11, #16]\n"
        "vdup.32 q2, r0\n"
        "vadd.i32 q0, q0, r4\n"
        "cmp    r8, #0\n"
        "vadd.i32 q1, q1, r4\n"
        "beq    4f\n"
        "vshl.i32 q0, q0, #1\n"
        "vshl.i32 q1, q1, #1\n"
        "vshr.s32 q3, q0, #31\n"
        "vrmulh.s32 q0, q0, q2\n"
        "vadd.i32 q0, q0, q3\n"
        "vshr.s32 q3, q1, #31\n"
        "vrmulh.s32 q1, q1, q2\n"
        "vadd.i32 q1, q1, q3\n"
        "b      5f\n"
        "4:\n"
        "vmulh.s32 q0, q0, q2\n"
        "vmulh.s32 q1, q1, q2\n"
        "5:\n"
        "vadd.i32 q0, q0, r2\n"
        "vadd.i32 q1, q1, r2\n"
        "vshl.s32 q0, r6\n"
        "vshl.s32 q1, r6\n"
        "vqmovnb.s32 q0, q0\n"
        "vqmovnb.s32 q1, q1\n"
        "vqmovnb.s16 q0, q0\n"
        "vqmovnb.s16 q1, q1\n"
        "ldrd   r11, r2, [sp, #8]\n"
        "vctp.32 r9\n"
        "vpstt\n"
        "vstrbt.32 q1, [r2], #4\n"
        "vstrbt.32 q0, [r7], #4\n"
        "str    r2, [sp, #12]\n"
        "sub    r1, r1, r11, lsl #4\n"
        "sub    r3, r3, r11, lsl #4\n"
        "subs   r9, r9, #4\n"
        "bgt    1b\n"
        "add    sp, sp, #16\n"
        "pop    {r4-r11, pc}\n");
}

/* n int8, widened; zeros behind them up to the end. */
static TC_NAKED void tc_matmul_mve_widened(const tc_matmul_mve_walk_t *walk TC_UNUSED,
                                           const int8_t *x TC_UNUSED, int32_t n TC_UNUSED,
                                           int16_t *to TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r7, lr}\n"
        "ldrd   r4, r5, [r0]\n"
        "ldr    lr, [r0, #8]\n"
        "ldr    r6, [r0, #12]\n"
        "cmp    r4, #1\n"
        "beq    2f\n"
        "mov    r12, #0\n"
        "vidup.u16 q1, r12, #1\n"
        "vmul.i16 q1, q1, r4\n"
        "lsl    r7, r4, #3\n"
        "1:\n"
        "vctp.16 r2\n"
        "vpstt\n"
        "vldrbt.s16 q0, [r1, q1]\n"
        "vsubt.i16 q0, q0, r5\n"
        "sub    r2, r2, #8\n"
        "add    r1, r1, r7\n"
        "usat   r2, #16, r2\n"
        "vstrh.16 q0, [r3]\n"
        "add    r3, r3, r6\n"
        "le     lr, 1b\n"
        "pop    {r4-r7, pc}\n"
        "2:\n"
        "vctp.16 r2\n"
        "vpstt\n"
        "vldrbt.s16 q0, [r1], #8\n"
        "vsubt.i16 q0, q0, r5\n"
        "sub    r2, r2, #8\n"
        "usat   r2, #16, r2\n"
        "vstrh.16 q0, [r3]\n"
        "add    r3, r3, r6\n"
        "le     lr, 2b\n"
        "pop    {r4-r7, pc}\n");
}

#else

static inline int8_t tc_matmul_mve_output(const tc_matmul_mve_t *p, int64_t sum)
{
    const int64_t t = (sum + p->start) * (p->twice ? 2 : 1), product = t * p->mult;
    const int64_t high = p->twice ? ((product + 0x80000000LL) >> 32) - (t < 0) : product >> 32;
    return (int8_t)tc_clamp((int32_t)((high + p->add) >> -p->minus_shift), -128, 127);
}

static inline void tc_matmul_mve_rows(const tc_matmul_mve_t *p, const tc_matmul_mve_job_t *job)
{
    for (int32_t c = 0; c < job->cols; c++) {
        const int16_t *x = job->xs, *w = job->ys + c / 4 * 32 * job->eights + c % 4 * 8;
        int64_t sum0 = 0, sum1 = 0;
        for (int32_t i = 0; i < 8 * job->eights; i++) {
            sum0 += x[i] * w[i / 8 * 32 + i % 8];
            sum1 += x[8 * job->eights + i] * w[i / 8 * 32 + i % 8];
        }
        job->y0[c] = tc_matmul_mve_output(p, sum0);
        job->y1[c] = tc_matmul_mve_output(p, sum1);
    }
}

static inline void tc_matmul_mve_widened(const tc_matmul_mve_walk_t *walk, const int8_t *x, int32_t n,
                                         int16_t *to)
{
    for (int32_t i = 0; i < 8 * walk->eights; i++) {
        to[i / 8 * (walk->apart / 2) + i % 8] = (int16_t)(i < n ? x[i * walk->next] - walk->zero : 0);
    }
}

#endif

/* The row of n int8, `next` apart, to xs. */
static inline void tc_matmul_mve_widen(const int8_t *x, int32_t n, int32_t next, int32_t zero, int16_t *xs)
{
    const tc_matmul_mve_walk_t walk = {next, zero, (n + 7) >> 3, 16};
    tc_matmul_mve_widened(&walk, x, n, xs);
}

/* The right side [depth][cols], steps `down` and columns `right` apart, to ys. */
static TC_UNUSED void tc_matmul_mve_columns(const int8_t *y, int32_t depth, int32_t cols, int32_t down,
                                            int32_t right, int32_t zero, int16_t *ys)
{
    const tc_matmul_mve_walk_t walk = {down, zero, (depth + 7) >> 3, 64};
    for (int32_t c = 0; c < ((cols + 3) & ~3); c++, y += right) {
        int16_t *const to = ys + (c >> 2) * 32 * walk.eights + (c & 3) * 8;
        tc_matmul_mve_widened(&walk, y, c < cols ? depth : 0, to);
    }
}

#endif
