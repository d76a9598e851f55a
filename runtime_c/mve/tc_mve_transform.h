/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_transform.h with Helium: the same numbers, four butterflies at a time. A product of which the
 * upper half is kept, rounded, is VRMULH; the points of half of powers of two, 16 or more.
 *
 * Twiddles are those of k = 0 .. m - 1 of each step but the first, four k after another: for parts 1, 2 and 3
 * four cosines and four sines. A step of m = 2 has k = 0, 1 twice, for two blocks.
 */
#ifndef TC_MVE_TRANSFORM_H
#define TC_MVE_TRANSFORM_H

#include "tc_mve.h"
#include "tc_spectrum_transform.h"

#define TC_MVE_TURNS 24 /* numbers of four k */

#if TC_MVE_ASM

/* Four butterflies of radix 4 at a time. q7: addresses of their parts a; e: q4, q5, f: q0, q1, real and
 * imaginary. */
static TC_NAKED void tc_mve_first_of_four(int32_t *y TC_UNUSED, const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "vpush  {d8-d15}\n"
        "movs   r4, #0\n"
        "vidup.u32 q7, r4, #8\n"
        "vshl.i32 q7, q7, #2\n"
        "sub    r1, r1, r0\n"
        "lsr    r1, r1, #7\n"
        "vadd.i32 q7, q7, r0\n"
        "movs   r3, #128\n"
        "dls    lr, r1\n"
        "1:\n"
        "vldrw.u32 q0, [q7]\n"
        "vldrw.u32 q2, [q7, #8]\n"
        "vldrw.u32 q1, [q7, #4]\n"
        "vadd.i32 q4, q0, q2\n"
        "vldrw.u32 q3, [q7, #12]\n"
        "vsub.i32 q0, q0, q2\n"
        "vldrw.u32 q2, [q7, #16]\n"
        "vadd.i32 q5, q1, q3\n"
        "vsub.i32 q1, q1, q3\n"
        "vldrw.u32 q3, [q7, #24]\n"
        "vadd.i32 q6, q2, q3\n"
        "vsub.i32 q2, q2, q3\n" /* h, real */
        "vadd.i32 q3, q4, q6\n"
        "vsub.i32 q4, q4, q6\n"
        "vstrw.32 q3, [q7]\n"
        "vldrw.u32 q3, [q7, #20]\n"
        "vstrw.32 q4, [q7, #16]\n"
        "vldrw.u32 q4, [q7, #28]\n"
        "vadd.i32 q6, q3, q4\n"
        "vsub.i32 q3, q3, q4\n" /* h, imaginary */
        "vadd.i32 q4, q5, q6\n"
        "vsub.i32 q5, q5, q6\n"
        "vstrw.32 q4, [q7, #4]\n"
        "vadd.i32 q4, q0, q3\n"
        "vstrw.32 q5, [q7, #20]\n"
        "vsub.i32 q0, q0, q3\n"
        "vstrw.32 q4, [q7, #8]\n"
        "vsub.i32 q5, q1, q2\n"
        "vstrw.32 q0, [q7, #24]\n"
        "vadd.i32 q1, q1, q2\n"
        "vstrw.32 q5, [q7, #12]\n"
        "vstrw.32 q1, [q7, #28]\n"
        "vadd.i32 q7, q7, r3\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4, pc}\n");
}

static TC_NAKED void tc_mve_first_of_two(int32_t *y TC_UNUSED, const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    r1, r1, r0\n"
        "lsr    r1, r1, #6\n"
        "dls    lr, r1\n"
        "1:\n"
        "vld40.32 {q0, q1, q2, q3}, [r0]\n"
        "vld41.32 {q0, q1, q2, q3}, [r0]\n"
        "vld42.32 {q0, q1, q2, q3}, [r0]\n"
        "vld43.32 {q0, q1, q2, q3}, [r0]\n"
        "vadd.i32 q4, q0, q2\n"
        "vadd.i32 q5, q1, q3\n"
        "vsub.i32 q6, q0, q2\n"
        "vsub.i32 q7, q1, q3\n"
        "vst40.32 {q4, q5, q6, q7}, [r0]\n"
        "vst41.32 {q4, q5, q6, q7}, [r0]\n"
        "vst42.32 {q4, q5, q6, q7}, [r0]\n"
        "vst43.32 {q4, q5, q6, q7}, [r0]!\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4, pc}\n");
}

static inline void tc_mve_first(int32_t radix, int32_t *y, const int32_t *end)
{
    if (radix == 4) {
        tc_mve_first_of_four(y, end);
    } else {
        tc_mve_first_of_two(y, end);
    }
}

/* The step of m = 2: two blocks of 16 numbers at a time. q7: addresses of points 0 and 1 of part a of both.
 * */
static TC_NAKED void tc_mve_step_of_two(const int32_t *t TC_UNUSED, int32_t *z TC_UNUSED,
                                        const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r7, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    sp, #36\n"
        "mov    r4, r1\n"
        "add    r5, r1, #8\n"
        "add    r6, r1, #64\n"
        "add    r7, r1, #72\n"
        "vmov   q7[2], q7[0], r4, r6\n"
        "vmov   q7[3], q7[1], r5, r7\n"
        "sub    r2, r2, r1\n"
        "lsr    r2, r2, #7\n"
        "movs   r3, #128\n"
        "dls    lr, r2\n"
        "1:\n"
        "vldrw.u32 q0, [q7, #32]\n" /* b: q4, q5 */
        "vldrw.u32 q2, [r0]\n"
        "vldrw.u32 q1, [q7, #36]\n"
        "vrmulh.s32 q4, q0, q2\n"
        "vldrw.u32 q3, [r0, #16]\n"
        "vrmulh.s32 q5, q0, q3\n"
        "vneg.s32 q0, q1\n"
        "vrmulh.s32 q1, q1, q2\n"
        "vrmulh.s32 q0, q0, q3\n"
        "vadd.i32 q5, q5, q1\n"
        "vadd.i32 q4, q4, q0\n"
        "vldrw.u32 q0, [q7, #48]\n" /* d: q6, q0 */
        "vldrw.u32 q2, [r0, #64]\n"
        "vldrw.u32 q1, [q7, #52]\n"
        "vrmulh.s32 q6, q0, q2\n"
        "vldrw.u32 q3, [r0, #80]\n"
        "vrmulh.s32 q0, q0, q3\n"
        "vrmulh.s32 q2, q1, q2\n"
        "vneg.s32 q1, q1\n"
        "vrmulh.s32 q1, q1, q3\n"
        "vadd.i32 q0, q0, q2\n"
        "vadd.i32 q6, q6, q1\n"
        "vsub.i32 q3, q5, q0\n" /* h: on the stack */
        "vadd.i32 q2, q5, q0\n" /* g: q1, q2 */
        "vstrw.32 q3, [sp, #16]\n"
        "vsub.i32 q3, q4, q6\n"
        "vadd.i32 q1, q4, q6\n"
        "vstrw.32 q3, [sp]\n"
        "vldrw.u32 q0, [q7, #16]\n" /* c: q6, q0 */
        "vldrw.u32 q4, [r0, #32]\n"
        "vldrw.u32 q3, [q7, #20]\n"
        "vrmulh.s32 q6, q0, q4\n"
        "vldrw.u32 q5, [r0, #48]\n"
        "vrmulh.s32 q0, q0, q5\n"
        "vrmulh.s32 q4, q3, q4\n"
        "vneg.s32 q3, q3\n"
        "vrmulh.s32 q3, q3, q5\n"
        "vadd.i32 q0, q0, q4\n"
        "vadd.i32 q6, q6, q3\n"
        "vldrw.u32 q3, [q7]\n" /* a */
        "vldrw.u32 q4, [q7, #4]\n"
        "vrshr.s32 q3, q3, #2\n"
        "vrshr.s32 q4, q4, #2\n"
        "vadd.i32 q5, q3, q6\n" /* e: q5, q6; f: q3, q4 */
        "vsub.i32 q3, q3, q6\n"
        "vadd.i32 q6, q4, q0\n"
        "vsub.i32 q4, q4, q0\n"
        "vadd.i32 q0, q5, q1\n"
        "vsub.i32 q5, q5, q1\n"
        "vstrw.32 q0, [q7]\n"
        "vadd.i32 q1, q6, q2\n"
        "vstrw.32 q5, [q7, #32]\n"
        "vsub.i32 q6, q6, q2\n"
        "vstrw.32 q1, [q7, #4]\n"
        "vldrw.u32 q2, [sp, #16]\n"
        "vstrw.32 q6, [q7, #36]\n"
        "vadd.i32 q0, q3, q2\n"
        "vldrw.u32 q1, [sp]\n"
        "vsub.i32 q3, q3, q2\n"
        "vstrw.32 q0, [q7, #16]\n"
        "vsub.i32 q5, q4, q1\n"
        "vstrw.32 q3, [q7, #48]\n"
        "vadd.i32 q4, q4, q1\n"
        "vstrw.32 q5, [q7, #20]\n"
        "vstrw.32 q4, [q7, #52]\n"
        "vadd.i32 q7, q7, r3\n"
        "le     lr, 1b\n"
        "add    sp, #36\n"
        "vpop   {d8-d15}\n"
        "pop    {r4-r7, pc}\n");
}

/* m: numbers of a part.
 *
 * r0: twiddles, r1: bytes of a part, r2, r4, r5, r6: parts in the order a, c, b, d. Compilers keep pairs of
 * vectors in memory.
 */
static TC_NAKED void tc_mve_step(const int32_t *twiddles TC_UNUSED, int32_t m TC_UNUSED, int32_t *z TC_UNUSED,
                                 const int32_t *end TC_UNUSED)
{
/* A point at `from` times its turn at t: (re, im). q0 to q3 are lost. */
#define TC_MVE_TURNED(from, t, re, im)                                             \
    "vld20.32 {q0, q1}, [" from "]\n"                                              \
    "vld21.32 {q0, q1}, [" from "]\n"                                              \
    "vldrw.u32 q2, [r0, #" t "]\n"                                                 \
    "vrmulh.s32 " re ", q0, q2\n"                                                  \
    "vldrw.u32 q3, [r0, #" t " + 16]\n"                                            \
    "vrmulh.s32 " im ", q0, q3\n"                                                  \
    "vneg.s32 q0, q1\n"                                                            \
    "vrmulh.s32 q1, q1, q2\n"                                                      \
    "vrmulh.s32 q0, q0, q3\n"                                                      \
    "vadd.i32 " im ", " im ", q1\n"                                                \
    "vadd.i32 " re ", " re ", q0\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r8, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    sp, #16\n"
        "lsl    r1, r1, #2\n"
        "mov    r8, r0\n"
        "lsr    r7, r1, #5\n"
        "1:\n" /* a block */
        "add    r4, r2, r1\n"
        "add    r5, r4, r1\n"
        "add    r6, r5, r1\n"
        "mov    r0, r8\n"
        "dls    lr, r7\n"
        "2:\n"
        TC_MVE_TURNED("r5", "0", "q4", "q5") /* b */
        TC_MVE_TURNED("r6", "64", "q6", "q7") /* d */
        "vsub.i32 q0, q5, q7\n" /* h, its imaginary part on the stack */
        "vadd.i32 q2, q5, q7\n" /* g: q1, q2 */
        "vstrw.32 q0, [sp]\n"
        "vadd.i32 q1, q4, q6\n"
        "vsub.i32 q3, q4, q6\n"
        "vld20.32 {q4, q5}, [r4]\n" /* c */
        "vld21.32 {q4, q5}, [r4]\n"
        "vldrw.u32 q6, [r0, #32]\n"
        "vrmulh.s32 q0, q4, q6\n"
        "vldrw.u32 q7, [r0, #48]\n"
        "vrmulh.s32 q6, q5, q6\n"
        "vneg.s32 q5, q5\n"
        "vrmulh.s32 q4, q4, q7\n"
        "vrmulh.s32 q5, q5, q7\n"
        "vadd.i32 q4, q4, q6\n"
        "vadd.i32 q0, q0, q5\n"
        "vld20.32 {q6, q7}, [r2]\n" /* a */
        "vld21.32 {q6, q7}, [r2]\n"
        "add    r0, #96\n"
        "vrshr.s32 q7, q7, #2\n"
        "vrshr.s32 q6, q6, #2\n"
        "vadd.i32 q5, q7, q4\n" /* e: q4, q5; f: q6, q7 */
        "vsub.i32 q7, q7, q4\n"
        "vadd.i32 q4, q6, q0\n"
        "vsub.i32 q6, q6, q0\n"
        "vadd.i32 q0, q4, q1\n"
        "vsub.i32 q4, q4, q1\n"
        "vadd.i32 q1, q5, q2\n"
        "vsub.i32 q5, q5, q2\n"
        "vst20.32 {q0, q1}, [r2]\n"
        "vst21.32 {q0, q1}, [r2]!\n"
        "vldrw.u32 q2, [sp]\n"
        "vst20.32 {q4, q5}, [r5]\n"
        "vadd.i32 q0, q6, q2\n"
        "vst21.32 {q4, q5}, [r5]!\n"
        "vsub.i32 q1, q7, q3\n"
        "vsub.i32 q6, q6, q2\n"
        "vst20.32 {q0, q1}, [r4]\n"
        "vadd.i32 q7, q7, q3\n"
        "vst21.32 {q0, q1}, [r4]!\n"
        "vst20.32 {q6, q7}, [r6]\n"
        "vst21.32 {q6, q7}, [r6]!\n"
        "le     lr, 2b\n"
        "mov    r2, r6\n"
        "cmp    r2, r3\n"
        "bne    1b\n"
        "add    sp, #16\n"
        "vpop   {d8-d15}\n"
        "pop    {r4-r8, pc}\n");
#undef TC_MVE_TURNED
}

/* Pairs of points, low and high, a multiple of four of them; t: split. r2, r4: real and imaginary parts of
 * the four high ones. */
static TC_NAKED void tc_mve_pairs(const int32_t *t TC_UNUSED, int32_t *low TC_UNUSED, int32_t *high TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    r3, r2, r1\n"
        "add    r3, #16\n"
        "lsr    r3, r3, #6\n"
        "movs   r4, #6\n"
        "vddup.u32 q7, r4, #2\n"
        "sub    r2, #24\n"
        "add    r4, r2, #4\n"
        "dls    lr, r3\n"
        "1:\n"
        "vldrw.u32 q2, [r2, q7, uxtw #2]\n"
        "vld20.32 {q0, q1}, [r1]\n"
        "vld21.32 {q0, q1}, [r1]\n"
        "vldrw.u32 q3, [r4, q7, uxtw #2]\n"
        "vsub.i32 q6, q0, q2\n" /* apart: q6, q2 */
        "vadd.i32 q0, q0, q2\n" /* both: q0, q1 */
        "vld20.32 {q4, q5}, [r0]\n"
        "vadd.i32 q2, q1, q3\n"
        "vld21.32 {q4, q5}, [r0]!\n"
        "vsub.i32 q1, q1, q3\n"
        "vrmulh.s32 q3, q6, q4\n"
        "vrmulh.s32 q4, q2, q4\n"
        "vneg.s32 q2, q2\n"
        "vrmulh.s32 q6, q6, q5\n"
        "vrshr.s32 q0, q0, #2\n"
        "vrmulh.s32 q2, q2, q5\n"
        "vrshr.s32 q1, q1, #2\n"
        "vadd.i32 q4, q4, q6\n" /* turned: q3, q4 */
        "vadd.i32 q3, q3, q2\n"
        "vadd.i32 q6, q1, q4\n"
        "vadd.i32 q5, q0, q3\n"
        "vsub.i32 q1, q4, q1\n"
        "vst20.32 {q5, q6}, [r1]\n"
        "vsub.i32 q0, q0, q3\n"
        "vst21.32 {q5, q6}, [r1]!\n"
        "vstrw.32 q0, [r2, q7, uxtw #2]\n"
        "sub    r2, #32\n"
        "vstrw.32 q1, [r4, q7, uxtw #2]\n"
        "sub    r4, #32\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4, pc}\n");
}

#else

static inline void tc_mve_first(int32_t radix, int32_t *y, const int32_t *end)
{
    tc_transform_first(radix, y, end);
}

/* t: cosines and sines of part 1 of lane 0; m: numbers of a part. */
static inline void tc_mve_turn(const int32_t *t, int32_t m, int32_t *z)
{
    const int32_t turns[6] = {t[0], t[4], t[8], t[12], t[16], t[20]};
    tc_transform_turn(z, m, turns);
}

static inline void tc_mve_step_of_two(const int32_t *t, int32_t *z, const int32_t *end)
{
    for (; z < end; z += 16) {
        tc_mve_turn(t, 4, z);
        tc_mve_turn(t + 1, 4, z + 2);
    }
}

static inline void tc_mve_step(const int32_t *twiddles, int32_t m, int32_t *z, const int32_t *end)
{
    for (; z < end; z += 4 * m) {
        for (int32_t k = 0; k < m / 2; k++) {
            tc_mve_turn(twiddles + TC_MVE_TURNS * (k / 4) + k % 4, m, z + 2 * k);
        }
    }
}

static inline void tc_mve_pairs(const int32_t *t, int32_t *low, int32_t *high)
{
    tc_transform_pairs(t, low, high);
}

#endif

static inline void tc_mve_transform(const int32_t *twiddles, const int32_t *split, int32_t half,
                                    int32_t radix, int32_t *y)
{
    const int32_t *t = twiddles, *const end = y + 2 * half;
    int32_t m = 2 * radix;

    tc_mve_first(radix, y, end);
    if (radix == 2) {
        tc_mve_step_of_two(t, y, end);
        t += TC_MVE_TURNS;
        m = 16;
    }
    for (; m < 2 * half; t += TC_MVE_TURNS / 8 * m, m *= 4) {
        tc_mve_step(t, m, y, end);
    }
    tc_transform_ends(half, y);
    tc_mve_pairs(split, y + 2, y + 2 * half - 2);
}

#endif
