/* SPDX-License-Identifier: 0BSD */
/* int16 activations with Helium (MVE): eight products of int16 to an instruction, sums in int32.
 *
 *   y = clamp(((acc + bias) * mult >> 32) + add >> shift, y_min, y_max)
 *
 * The stream of dot products holds for each four output channels
 *   weights  of each eight taps, eight of one channel after the other, filled up with zeros
 *   4 vectors of four words: bias, mult, add, minus shift
 * and that of depthwise layers for each eight channels
 *   weights  [taps][8]
 *   8 vectors of four words: biases of the even and of the odd channels, then mult, add, minus shift
 * Channels beyond the last have zero weights. Sums wrap modulo 2^32: only the accumulator in the end has to
 * fit int32, which the compiler proves.
 */
#ifndef TC_S16_MVE_H
#define TC_S16_MVE_H

#include "tc_mve.h"

typedef struct {
    int32_t steps, out_c; /* steps: eights of taps; of a depthwise layer, taps */
    int32_t y_min, y_max;
} tc_s16_mve_t;

#if TC_MVE_ASM

#define TC_S16_MVE_TWO(op, w, a, b)                                                \
    "vldrw.u32 " w ", [r5], #16 \n" op ".s16 " a ", q0, " w " \n" op ".s16 " b ", q1, " w " \n"
#define TC_S16_MVE_STEP_2(op)                                                      \
    "vldrh.u16 q0, [r1], #16 \n vldrh.u16 q1, [r3], #16 \n"                        \
    TC_S16_MVE_TWO(op, "q2", "r0", "r8") TC_S16_MVE_TWO(op, "q3", "r2", "r10")     \
    TC_S16_MVE_TWO(op, "q2", "r4", "r12") TC_S16_MVE_TWO(op, "q3", "r6", "lr")

/* Labels 1 to 3: the sums of r11 steps, of the pixel at r1 to q0 and of that at r3 to q1; pointers move. */
#define TC_S16_MVE_DOTS_2                                                          \
    "1: \n" TC_S16_MVE_STEP_2("vmladav") "subs r11, r11, #1 \n beq 3f \n tst r11, #1 \n beq 2f \n"          \
    TC_S16_MVE_STEP_2("vmladava") "subs r11, r11, #1 \n beq 3f \n"                \
    "2: \n" TC_S16_MVE_STEP_2("vmladava") TC_S16_MVE_STEP_2("vmladava") "subs r11, r11, #2 \n bne 2b \n"     \
    "3: \n vmov q0[2], q0[0], r0, r4 \n vmov q0[3], q0[1], r2, r6 \n"             \
    "vmov q1[2], q1[0], r8, r12 \n vmov q1[3], q1[1], r10, lr \n"

/* All channels of two pixels, the second out_c after the first; x1 may be x0 + 8 * steps. */
static TC_NAKED void tc_s16_mve_2(const int16_t *x0 TC_UNUSED, const int16_t *x1 TC_UNUSED,
                                  const int32_t *stream TC_UNUSED, int16_t *y TC_UNUSED,
                                  const tc_s16_mve_t *p TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r3-r11, lr}\n"
        "mov    r5, r2\n"
        "mov    r7, r3\n"
        "mov    r3, r1\n"
        "mov    r1, r0\n"
        "ldr    r11, [sp, #40]\n"
        "ldrd   r11, r9, [r11]\n"
        "str    r11, [sp]\n"
        TC_S16_MVE_DOTS_2
        "vldrw.u32 q2, [r5], #16\n"
        "vadd.i32 q0, q0, q2\n"
        "vadd.i32 q1, q1, q2\n"
        "vldrw.u32 q2, [r5], #16\n"
        "vmulh.s32 q0, q0, q2\n"
        "vmulh.s32 q1, q1, q2\n"
        "vldrw.u32 q2, [r5], #16\n"
        "vadd.i32 q0, q0, q2\n"
        "vadd.i32 q1, q1, q2\n"
        "vldrw.u32 q2, [r5], #16\n"
        "vshl.s32 q0, q0, q2\n"
        "vshl.s32 q1, q1, q2\n"
        "ldr    r4, [sp, #40]\n"
        "ldrd   r6, r8, [r4, #8]\n"
        "ldr    r4, [r4, #4]\n"
        "vdup.32 q2, r6\n"
        "vdup.32 q3, r8\n"
        "vmax.s32 q0, q0, q2\n"
        "vmax.s32 q1, q1, q2\n"
        "vmin.s32 q0, q0, q3\n"
        "vmin.s32 q1, q1, q3\n"
        "add    r4, r7, r4, lsl #1\n"
        "vctp.32 r9\n"
        "vpstt\n"
        "vstrht.32 q1, [r4]\n"
        "vstrht.32 q0, [r7], #8\n"
        "ldr    r11, [sp]\n"
        "sub    r1, r1, r11, lsl #4\n"
        "sub    r3, r3, r11, lsl #4\n"
        "subs   r9, r9, #4\n"
        "bgt    1b\n"
        "pop    {r3-r11, pc}\n");
}

#define TC_S16_MVE_ONE(w, a) "vldrw.u32 " w ", [r2], #16 \n vmladava.s16 " a ", q0, " w " \n"

/* All channels of one pixel. */
static TC_NAKED void tc_s16_mve_1(const int16_t *x TC_UNUSED, const int32_t *stream TC_UNUSED,
                                  int16_t *y TC_UNUSED, const tc_s16_mve_t *p TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "mov    r7, r2\n"
        "mov    r2, r1\n"
        "mov    r1, r0\n"
        "ldrd   r5, r9, [r3]\n"
        "ldrd   r10, r11, [r3, #8]\n"
        "1:\n"
        "mov    lr, r5\n"
        "movs   r0, #0\n"
        "movs   r4, #0\n"
        "movs   r6, #0\n"
        "mov    r8, #0\n"
        "2:\n"
        "vldrh.u16 q0, [r1], #16\n" TC_S16_MVE_ONE("q2", "r0") TC_S16_MVE_ONE("q3", "r4")
        TC_S16_MVE_ONE("q2", "r6") TC_S16_MVE_ONE("q3", "r8")
        "le     lr, 2b\n"
        "vmov   q0[2], q0[0], r0, r6\n"
        "vmov   q0[3], q0[1], r4, r8\n"
        "vldrw.u32 q1, [r2], #16\n"
        "vldrw.u32 q2, [r2], #16\n"
        "vadd.i32 q0, q0, q1\n"
        "vldrw.u32 q1, [r2], #16\n"
        "vmulh.s32 q0, q0, q2\n"
        "vldrw.u32 q2, [r2], #16\n"
        "vadd.i32 q0, q0, q1\n"
        "vdup.32 q1, r10\n"
        "vshl.s32 q0, q0, q2\n"
        "vdup.32 q2, r11\n"
        "vmax.s32 q0, q0, q1\n"
        "vctp.32 r9\n"
        "vmin.s32 q0, q0, q2\n"
        "vpst\n"
        "vstrht.32 q0, [r7], #8\n"
        "sub    r1, r1, r5, lsl #4\n"
        "subs   r9, r9, #4\n"
        "bgt    1b\n"
        "pop    {r4-r11, pc}\n");
}

/* All channels of one pixel of a depthwise layer. */
static TC_NAKED void tc_s16_mve_depthwise(const int16_t *const *taps TC_UNUSED,
                                          const int32_t *stream TC_UNUSED, int16_t *y TC_UNUSED,
                                          const tc_s16_mve_t *p TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        "vpush  {d8, d9}\n"
        "ldrd   r8, r7, [r3]\n"
        "ldrd   r9, r10, [r3, #8]\n"
        "movs   r6, #0\n"
        "1:\n"
        "mov    r4, r0\n"
        "mov    lr, r8\n"
        "vctp.16 r7\n"
        "vmov.i32 q0, #0\n"
        "vmov.i32 q1, #0\n"
        "2:\n"
        "ldr    r5, [r4], #4\n"
        "vldrh.u16 q3, [r1], #16\n"
        "add    r5, r5, r6\n"
        "vpst\n"
        "vldrht.u16 q2, [r5]\n"
        "vmullb.s16 q4, q2, q3\n"
        "vmullt.s16 q2, q2, q3\n"
        "vadd.i32 q0, q0, q4\n"
        "vadd.i32 q1, q1, q2\n"
        "le     lr, 2b\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vadd.i32 q0, q0, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vadd.i32 q1, q1, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vmulh.s32 q0, q0, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vmulh.s32 q1, q1, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vadd.i32 q0, q0, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vadd.i32 q1, q1, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vshl.s32 q0, q0, q2\n"
        "vldrw.u32 q2, [r1], #16\n"
        "vshl.s32 q1, q1, q2\n"
        "vqmovnb.s32 q0, q0\n"
        "vqmovnt.s32 q0, q1\n"
        "vdup.16 q1, r9\n"
        "vdup.16 q2, r10\n"
        "vmax.s16 q0, q0, q1\n"
        "vmin.s16 q0, q0, q2\n"
        "vpst\n"
        "vstrht.16 q0, [r2], #16\n"
        "adds   r6, #16\n"
        "subs   r7, r7, #8\n"
        "bgt    1b\n"
        "vpop   {d8, d9}\n"
        "pop    {r4-r10, pc}\n");
}

/* n numbers from `from` on, or x_zero where it is null. */
static TC_NAKED void tc_s16_mve_run(int16_t *to TC_UNUSED, const int16_t *from TC_UNUSED, int32_t n TC_UNUSED,
                                    int32_t x_zero TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4, lr}\n"
        "vdup.16 q0, r3\n"
        "wlstp.16 lr, r2, 3f\n"
        "cbz    r1, 2f\n"
        "1:\n"
        "vldrh.u16 q0, [r1], #16\n"
        "vstrh.16 q0, [r0], #16\n"
        "letp   lr, 1b\n"
        "pop    {r4, pc}\n"
        "2:\n"
        "vstrh.16 q0, [r0], #16\n"
        "letp   lr, 2b\n"
        "3:\n"
        "pop    {r4, pc}\n");
}

#else

/* The output of channel o of its group, of `group` channels; scale: bias, mult, add, minus shift. */
static inline int16_t tc_s16_mve_output(const tc_s16_mve_t *p, int64_t acc, const int32_t *scale,
                                        int32_t apart)
{
    const int32_t sum = tc_mve_wrap(acc + scale[0]);
    const int32_t h = tc_mve_wrap(((int64_t)sum * scale[apart] >> 32) + scale[2 * apart]);
    return (int16_t)tc_clamp(h >> -scale[3 * apart], p->y_min, p->y_max);
}

static inline void tc_s16_mve_1(const int16_t *x, const int32_t *stream, int16_t *y, const tc_s16_mve_t *p)
{
    for (int32_t o = 0; o < p->out_c; o++) {
        const int32_t *group = stream + o / 4 * (16 * p->steps + 16);
        int64_t acc = 0;
        for (int32_t i = 0; i < 8 * p->steps; i++) {
            const int16_t *w = (const int16_t *)(const void *)group + i / 8 * 32 + o % 4 * 8;
            acc += x[i] * w[i % 8];
        }
        y[o] = tc_s16_mve_output(p, acc, group + 16 * p->steps + o % 4, 4);
    }
}

static inline void tc_s16_mve_2(const int16_t *x0, const int16_t *x1, const int32_t *stream, int16_t *y,
                                const tc_s16_mve_t *p)
{
    tc_s16_mve_1(x0, stream, y, p);
    tc_s16_mve_1(x1, stream, y + p->out_c, p);
}

static inline void tc_s16_mve_depthwise(const int16_t *const *taps, const int32_t *stream, int16_t *y,
                                        const tc_s16_mve_t *p)
{
    for (int32_t o = 0; o < p->out_c; o++) {
        const int32_t *group = stream + o / 8 * (4 * p->steps + 32);
        int64_t acc = 0;
        for (int32_t i = 0; i < p->steps; i++) {
            acc += taps[i][o] * ((const int16_t *)(const void *)group)[8 * i + o % 8];
        }
        y[o] = tc_s16_mve_output(p, acc, group + 4 * p->steps + o % 2 * 4 + o % 8 / 2, 8);
    }
}

static inline void tc_s16_mve_run(int16_t *to, const int16_t *from, int32_t n, int32_t x_zero)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = from ? from[i] : (int16_t)x_zero;
    }
}

#endif

#endif
