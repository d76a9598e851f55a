/* SPDX-License-Identifier: 0BSD */
/* Fully connected on a core without DSP instructions (tc_scalar.h), four outputs at a time.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing.
 * x [batch][in_c]. y [batch][out_c], may not overlap x. w [out_c / 4][taps][4], taps = in_c rounded up to a
 * multiple of 4, zeros beyond the last output and input. scratch: a word for each tap. acc cannot overflow:
 * the compiler bounds it.
 */
#ifndef TC_FULLY_CONNECTED_S8_SCALAR_H
#define TC_FULLY_CONNECTED_S8_SCALAR_H

#include "tc_scalar.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    int32_t batch, in_c, taps;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_fully_connected_s8_scalar_t;

#if TC_SCALAR_THUMB2

/* x [4 * fours] times w [4 * fours][4] -> acc [4]. */
static TC_NAKED void tc_scalar_dense4(const int32_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                             int32_t fours TC_UNUSED, int32_t *acc TC_UNUSED)
{
#define TC_SCALAR_TAP(x, w0, w1, w2, w3)                                           \
    "ldrsb  r12, [r1" w0 "\n"                                                      \
    "ldrsb  lr, [r1, #" w1 "]\n"                                                   \
    "mla    r4, r12, " x ", r4\n"                                                  \
    "mla    r5, lr, " x ", r5\n"                                                   \
    "ldrsb  r12, [r1, #" w2 "]\n"                                                  \
    "ldrsb  lr, [r1, #" w3 "]\n"                                                   \
    "mla    r6, r12, " x ", r6\n"                                                  \
    "mla    r7, lr, " x ", r7\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "movs   r4, #0\n"
        "movs   r5, #0\n"
        "movs   r6, #0\n"
        "movs   r7, #0\n"
        ".p2align 2\n"
        "1:\n"
        "ldmia  r0!, {r8-r11}\n"
        TC_SCALAR_TAP("r8", "], #16", "-15", "-14", "-13")
        TC_SCALAR_TAP("r9", ", #-12]", "-11", "-10", "-9")
        TC_SCALAR_TAP("r10", ", #-8]", "-7", "-6", "-5")
        TC_SCALAR_TAP("r11", ", #-4]", "-3", "-2", "-1")
        "subs   r2, #1\n"
        "bne    1b\n"
        "stm    r3, {r4-r7}\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SCALAR_TAP
}

#elif TC_SCALAR_THUMB1

/* x [4 * fours] times w [4 * fours][4] -> acc [4]. The words of x are as far apart as the weights of one
 * output: r4-r7 lead from x to the weights. */
static TC_NAKED void tc_scalar_dense4(const int32_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                             int32_t fours TC_UNUSED, int32_t *acc TC_UNUSED)
{
#define TC_SCALAR_TAP                                                              \
    "ldmia  r0!, {r1}\n"                                                           \
    "ldrsb  r2, [r0, r4]\n"                                                        \
    "muls   r2, r1, r2\n"                                                          \
    "add    r8, r2\n"                                                              \
    "ldrsb  r2, [r0, r5]\n"                                                        \
    "muls   r2, r1, r2\n"                                                          \
    "add    r9, r2\n"                                                              \
    "ldrsb  r2, [r0, r6]\n"                                                        \
    "muls   r2, r1, r2\n"                                                          \
    "add    r10, r2\n"                                                             \
    "ldrsb  r2, [r0, r7]\n"                                                        \
    "muls   r2, r1, r2\n"                                                          \
    "add    r11, r2\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r3-r7, lr}\n"
        "mov    r4, r8\n"
        "mov    r5, r9\n"
        "mov    r6, r10\n"
        "mov    r7, r11\n"
        "push   {r4-r7}\n"
        "subs   r4, r1, r0\n"
        "subs   r4, #4\n"
        "adds   r5, r4, #1\n"
        "adds   r6, r4, #2\n"
        "adds   r7, r4, #3\n"
        "lsls   r3, r2, #4\n"
        "adds   r3, r3, r0\n"
        "movs   r1, #0\n"
        "mov    r8, r1\n"
        "mov    r9, r1\n"
        "mov    r10, r1\n"
        "mov    r11, r1\n"
        "1:\n"
        TC_SCALAR_TAP
        TC_SCALAR_TAP
        TC_SCALAR_TAP
        TC_SCALAR_TAP
        "cmp    r0, r3\n"
        "bne    1b\n"
        "mov    r0, r8\n"
        "mov    r1, r9\n"
        "mov    r2, r10\n"
        "mov    r3, r11\n"
        "pop    {r4-r7}\n"
        "mov    r8, r4\n"
        "mov    r9, r5\n"
        "mov    r10, r6\n"
        "mov    r11, r7\n"
        "pop    {r4}\n"
        "stmia  r4!, {r0-r3}\n"
        "pop    {r4-r7, pc}\n");
#undef TC_SCALAR_TAP
}

#else

static TC_UNUSED void tc_scalar_dense4(const int32_t *x, const int8_t *w, int32_t fours, int32_t *acc)
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (const int32_t *end = x + 4 * fours; x < end; x++, w += 4) {
        a += *x * w[0];
        b += *x * w[1];
        c += *x * w[2];
        d += *x * w[3];
    }
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

#endif

static TC_UNUSED void tc_fully_connected_s8_scalar(const tc_fully_connected_s8_scalar_t *p, const int8_t *x,
                                                          int8_t *y, void *scratch)
{
    int32_t *const wide = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        for (int32_t i = 0; i < p->in_c; i++) {
            wide[i] = x[i];
        }
        for (int32_t i = p->in_c; i < p->taps; i++) {
            wide[i] = 0;
        }
        for (int32_t o = 0; o < out_c; o += 4) {
            int32_t acc[4];
            tc_scalar_dense4(wide, p->w + o * p->taps, p->taps >> 2, acc);
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#endif
