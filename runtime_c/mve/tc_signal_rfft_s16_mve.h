/* SPDX-License-Identifier: 0BSD */
/* tc_signal_rfft_s16_dsp with Helium: four butterflies at a time, the same numbers; half is at least 16.
 *
 * VQRDMULH by 8191 and by 16383 is a quarter and a half of a point; VQRDMLSDH and VQRDMLADHX are the real and
 * the imaginary part of a product, each rounded once, half up, as kissfft does it. They limit to int16 where
 * kissfft wraps: a quarter has parts up to 8192, so they do not get there. The split, whose differences are
 * four times as large, multiplies to 32 bits.
 *
 * Twiddles are those of k = 0 .. m - 1 of each step but the first, four k after another: for parts 1, 2 and 3
 * four points. A step of m = 2 has k = 0, 1 twice, for two blocks.
 */
#ifndef TC_SIGNAL_RFFT_S16_MVE_H
#define TC_SIGNAL_RFFT_S16_MVE_H

#include "tc_mve.h"
#include "tc_rfft_words.h"

#define TC_MVE_RFFT_TURNS 24 /* numbers of four k */

#if TC_MVE_ASM

/* Points q0 to q3, which were divided and turned, combined: to q0 to q3. VCADD adds a point a quarter of a
 * turn further. */
#define TC_MVE_RFFT_FOUR             \
    "vadd.i16 q4, q0, q2\n"          \
    "vsub.i16 q5, q0, q2\n"          \
    "vadd.i16 q6, q1, q3\n"          \
    "vsub.i16 q7, q1, q3\n"          \
    "vadd.i16 q0, q4, q6\n"          \
    "vcadd.i16 q1, q5, q7, #270\n"   \
    "vsub.i16 q2, q4, q6\n"          \
    "vcadd.i16 q3, q5, q7, #90\n"

/* A quarter of the points q0 to q3. */
#define TC_MVE_RFFT_QUARTERS(factor)           \
    "vqrdmulh.s16 q0, q0, " factor "\n"        \
    "vqrdmulh.s16 q1, q1, " factor "\n"        \
    "vqrdmulh.s16 q2, q2, " factor "\n"        \
    "vqrdmulh.s16 q3, q3, " factor "\n"

/* Points q1 to q3 turned, those of part 0 stay; q4 to q7 are lost. */
#define TC_MVE_RFFT_TURN                       \
    "vldrh.u16 q4, [r0], #16\n"                \
    "vqrdmlsdh.s16 q5, q1, q4\n"               \
    "vldrh.u16 q6, [r0], #16\n"                \
    "vqrdmladhx.s16 q5, q1, q4\n"              \
    "vldrh.u16 q7, [r0], #16\n"                \
    "vqrdmlsdh.s16 q4, q2, q6\n"               \
    "vmov q1, q5\n"                            \
    "vqrdmladhx.s16 q4, q2, q6\n"              \
    "vqrdmlsdh.s16 q5, q3, q7\n"               \
    "vmov q2, q4\n"                            \
    "vqrdmladhx.s16 q5, q3, q7\n"              \
    "vmov q3, q5\n"

/* The first step, of radix 4. sizes: points between parts, points that are in x. r7, r9, r10, r11: from which
 * first point on parts 0 to 3 lie beyond the end of x, where they are 0. */
static TC_NAKED void tc_mve_rfft_first_of_four(const int16_t *x TC_UNUSED, const uint16_t *order TC_UNUSED,
                                               int16_t *z TC_UNUSED, const int32_t *sizes TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "vpush  {d8-d15}\n"
        "ldrd   r4, r7, [r3]\n"
        "lsr    r12, r4, #2\n"
        "movw   r3, #8191\n"
        "add    r5, r0, r4, lsl #2\n"
        "add    r6, r5, r4, lsl #2\n"
        "add    r8, r6, r4, lsl #2\n"
        "sub    r9, r7, r4\n"
        "sub    r10, r9, r4\n"
        "sub    r11, r10, r4\n"
        "dls    lr, r12\n"
        "1:\n"
        "vldrh.u32 q7, [r1], #8\n"
        "vpt.s32 lt, q7, r7\n"
        "vldrwt.u32 q0, [r0, q7, uxtw #2]\n"
        "vpt.s32 lt, q7, r9\n"
        "vldrwt.u32 q1, [r5, q7, uxtw #2]\n"
        "vpt.s32 lt, q7, r10\n"
        "vldrwt.u32 q2, [r6, q7, uxtw #2]\n"
        "vpt.s32 lt, q7, r11\n"
        "vldrwt.u32 q3, [r8, q7, uxtw #2]\n"
        TC_MVE_RFFT_QUARTERS("r3")
        TC_MVE_RFFT_FOUR
        "vst40.32 {q0, q1, q2, q3}, [r2]\n"
        "vst41.32 {q0, q1, q2, q3}, [r2]\n"
        "vst42.32 {q0, q1, q2, q3}, [r2]\n"
        "vst43.32 {q0, q1, q2, q3}, [r2]!\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4-r11, pc}\n");
}

/* The same of radix 2. */
static TC_NAKED void tc_mve_rfft_first_of_two(const int16_t *x TC_UNUSED, const uint16_t *order TC_UNUSED,
                                              int16_t *z TC_UNUSED, const int32_t *sizes TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r7, lr}\n"
        "ldrd   r4, r7, [r3]\n"
        "lsr    r12, r4, #2\n"
        "movw   r3, #16383\n"
        "add    r5, r0, r4, lsl #2\n"
        "sub    r6, r7, r4\n"
        "dls    lr, r12\n"
        "1:\n"
        "vldrh.u32 q2, [r1], #8\n"
        "vpt.s32 lt, q2, r7\n"
        "vldrwt.u32 q0, [r0, q2, uxtw #2]\n"
        "vpt.s32 lt, q2, r6\n"
        "vldrwt.u32 q1, [r5, q2, uxtw #2]\n"
        "vqrdmulh.s16 q0, q0, r3\n"
        "vqrdmulh.s16 q3, q1, r3\n"
        "vsub.i16 q1, q0, q3\n"
        "vadd.i16 q0, q0, q3\n"
        "vst20.32 {q0, q1}, [r2]\n"
        "vst21.32 {q0, q1}, [r2]!\n"
        "le     lr, 1b\n"
        "pop    {r4-r7, pc}\n");
}

/* The step of m = 2: two blocks of 8 points at a time, whose part 0 is at r1 and r3. */
static TC_NAKED void tc_mve_rfft_step_of_two(const int16_t *twiddles TC_UNUSED, int16_t *z TC_UNUSED,
                                             const int16_t *end TC_UNUSED)
{
#define TC_MVE_RFFT_LOAD(low, high, at)                    \
    "ldrd   r4, r5, [r1, #" at "]\n"                       \
    "ldrd   r6, r7, [r3, #" at "]\n"                       \
    "vmov   " low ", r4, r5\n"                             \
    "vmov   " high ", r6, r7\n"
#define TC_MVE_RFFT_STORE(low, high, at)                   \
    "vmov   r4, r5, " low "\n"                             \
    "vmov   r6, r7, " high "\n"                            \
    "strd   r4, r5, [r1, #" at "]\n"                       \
    "strd   r6, r7, [r3, #" at "]\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r9, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    r2, r2, r1\n"
        "lsr    r2, r2, #6\n"
        "movw   r8, #8191\n"
        "mov    r9, r0\n"
        "dls    lr, r2\n"
        "1:\n"
        "add    r3, r1, #32\n"
        "mov    r0, r9\n"
        TC_MVE_RFFT_LOAD("d0", "d1", "0")
        TC_MVE_RFFT_LOAD("d2", "d3", "8")
        TC_MVE_RFFT_LOAD("d4", "d5", "16")
        TC_MVE_RFFT_LOAD("d6", "d7", "24")
        TC_MVE_RFFT_QUARTERS("r8")
        TC_MVE_RFFT_TURN
        TC_MVE_RFFT_FOUR
        TC_MVE_RFFT_STORE("d0", "d1", "0")
        TC_MVE_RFFT_STORE("d2", "d3", "8")
        TC_MVE_RFFT_STORE("d4", "d5", "16")
        TC_MVE_RFFT_STORE("d6", "d7", "24")
        "add    r1, #64\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4-r9, pc}\n");
#undef TC_MVE_RFFT_LOAD
#undef TC_MVE_RFFT_STORE
}

/* A step of m points, a multiple of four. r2, r4, r5, r6: parts 0 to 3. */
static TC_NAKED void tc_mve_rfft_step(const int16_t *twiddles TC_UNUSED, int32_t m TC_UNUSED,
                                      int16_t *z TC_UNUSED, const int16_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r9, lr}\n"
        "vpush  {d8-d15}\n"
        "lsr    r7, r1, #2\n"
        "lsl    r1, r1, #2\n"
        "mov    r8, r0\n"
        "movw   r9, #8191\n"
        "1:\n" /* a block */
        "add    r4, r2, r1\n"
        "add    r5, r4, r1\n"
        "add    r6, r5, r1\n"
        "mov    r0, r8\n"
        "dls    lr, r7\n"
        "2:\n"
        "vldrw.u32 q0, [r2]\n"
        "vldrw.u32 q1, [r4]\n"
        "vldrw.u32 q2, [r5]\n"
        "vldrw.u32 q3, [r6]\n"
        TC_MVE_RFFT_QUARTERS("r9")
        TC_MVE_RFFT_TURN
        TC_MVE_RFFT_FOUR
        "vstrw.32 q0, [r2], #16\n"
        "vstrw.32 q1, [r4], #16\n"
        "vstrw.32 q2, [r5], #16\n"
        "vstrw.32 q3, [r6], #16\n"
        "le     lr, 2b\n"
        "mov    r2, r6\n"
        "cmp    r2, r3\n"
        "bne    1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4-r9, pc}\n");
}

/* Pairs of points, low and high, a multiple of four of them; t: split. Predicated are imaginary parts. */
static TC_NAKED void tc_mve_rfft_pairs(const int16_t *t TC_UNUSED, int16_t *low TC_UNUSED,
                                       int16_t *high TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "vpush  {d8-d15}\n"
        "sub    r3, r2, r1\n"
        "add    r3, #8\n"
        "lsr    r3, r3, #5\n"
        "movs   r4, #3\n"
        "vddup.u32 q7, r4, #1\n"
        "sub    r2, #12\n"
        "movw   r4, #0xcccc\n"
        "vmsr   p0, r4\n"
        "movw   r4, #16383\n"
        "dls    lr, r3\n"
        "1:\n"
        "vldrw.u32 q1, [r2, q7, uxtw #2]\n"
        "vldrw.u32 q0, [r1]\n"
        "vpst\n"
        "vnegt.s16 q1, q1\n"
        "vqrdmulh.s16 q0, q0, r4\n"
        "vqrdmulh.s16 q1, q1, r4\n"
        "vldrh.u16 q3, [r0], #16\n"
        "vadd.i16 q2, q0, q1\n" /* the sum */
        "vsub.i16 q0, q0, q1\n"
        "vrev32.16 q4, q3\n"
        "vmullb.s16 q1, q0, q3\n"
        "vmullt.s16 q5, q0, q3\n"
        "vmullb.s16 q6, q0, q4\n"
        "vmullt.s16 q3, q0, q4\n"
        "vsub.i32 q1, q1, q5\n"
        "vadd.i32 q3, q6, q3\n"
        "vrshrnb.i32 q0, q1, #15\n"
        "vrshrnt.i32 q0, q3, #15\n" /* turned */
        "vhadd.s16 q5, q2, q0\n"
        "vhsub.s16 q6, q2, q0\n"
        "vstrw.32 q5, [r1], #16\n"
        "vpst\n"
        "vhsubt.s16 q6, q0, q2\n"
        "vstrw.32 q6, [r2, q7, uxtw #2]\n"
        "sub    r2, #16\n"
        "le     lr, 1b\n"
        "vpop   {d8-d15}\n"
        "pop    {r4, pc}\n");
}

static inline void tc_mve_rfft_first(const tc_rfft_words_t *p, const int16_t *x, int16_t *z)
{
    int32_t sizes[2];

    sizes[0] = p->half / p->radix;
    sizes[1] = p->samples / 2;
    if (p->radix == 4) {
        tc_mve_rfft_first_of_four(x, p->order, z, sizes);
    } else {
        tc_mve_rfft_first_of_two(x, p->order, z, sizes);
    }
}

#else

static inline void tc_mve_rfft_first(const tc_rfft_words_t *p, const int16_t *x, int16_t *z)
{
    tc_rfft_first(p, x, z);
}

/* t: the twiddle of part 1 of lane 0 */
static inline void tc_mve_rfft_turn(const int16_t *t, int32_t m, int16_t *z)
{
    tc_rfft_turn_four(z, m, tc_rfft_point(t, 0), tc_rfft_point(t, 4), tc_rfft_point(t, 8));
}

static inline void tc_mve_rfft_step_of_two(const int16_t *twiddles, int16_t *z, const int16_t *end)
{
    for (; z < end; z += 16) {
        tc_mve_rfft_turn(twiddles, 2, z);
        tc_mve_rfft_turn(twiddles + 2, 2, z + 2);
    }
}

static inline void tc_mve_rfft_step(const int16_t *twiddles, int32_t m, int16_t *z, const int16_t *end)
{
    for (; z < end; z += 8 * m) {
        for (int32_t k = 0; k < m; k++) {
            tc_mve_rfft_turn(twiddles + TC_MVE_RFFT_TURNS * (k / 4) + 2 * (k % 4), m, z + 2 * k);
        }
    }
}

static inline void tc_mve_rfft_pairs(const int16_t *t, int16_t *low, int16_t *high)
{
    tc_rfft_pairs(t, low, high);
}

#endif

static void tc_signal_rfft_s16_mve(const tc_rfft_words_t *p, const int16_t *x, int16_t *y)
{
    for (int32_t line = 0; line < p->lines; line++, x += p->samples, y += 2 * p->half + 2) {
        const int16_t *t = p->twiddles, *const end = y + 2 * p->half;
        int32_t m = p->radix;
        tc_mve_rfft_first(p, x, y);
        if (m == 2) {
            tc_mve_rfft_step_of_two(t, y, end);
            t += TC_MVE_RFFT_TURNS;
            m = 8;
        }
        for (; m < p->half; t += TC_MVE_RFFT_TURNS / 4 * m, m *= 4) {
            tc_mve_rfft_step(t, m, y, end);
        }
        tc_rfft_ends(p->half, y);
        tc_mve_rfft_pairs(p->split, y + 2, y + 2 * p->half - 2);
    }
}

#endif
