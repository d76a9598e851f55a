/* SPDX-License-Identifier: 0BSD */
/* One row of a 3x3 depthwise convolution on a core without DSP instructions, channel by channel, stride 1 or
 * 2.
 *
 *   acc[ox][c] = bias[c] + sum over ky, kx of x[ky][ox*stride_w - pad_left + kx][c] * w[c][ky][kx]
 *   y[ox][c]   = clamp(requantize(acc, mult[c], shift[c]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[c]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: 3 pointers to input rows s8 [in_w][out_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * w [out_c][3][3]. scratch: `columns` words. A column of three taps of a channel is a word, of row 0 in bits
 * 0-7, row 1 in bits 8-15, row 2 in bits 24-31; the accumulators take the place of the columns that are used
 * up.
 */
#ifndef TC_DEPTHWISE_CONV2D_3X3_S8_SCALAR_H
#define TC_DEPTHWISE_CONV2D_3X3_S8_SCALAR_H

#include "tc_scalar.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    int32_t in_w, out_w, stride_w, pad_left, x_zero, columns;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int32_t n, int8_t *y,
                  int32_t step);
} tc_depthwise_conv2d_3x3_s8_scalar_t;

#if TC_SCALAR_THUMB2

/* Weights to r2-r10. */
#define TC_SCALAR_WEIGHTS                                                          \
    "ldrsb  r2, [r1]\n"                                                            \
    "ldrsb  r3, [r1, #1]\n"                                                        \
    "ldrsb  r4, [r1, #2]\n"                                                        \
    "ldrsb  r5, [r1, #3]\n"                                                        \
    "ldrsb  r6, [r1, #4]\n"                                                        \
    "ldrsb  r7, [r1, #5]\n"                                                        \
    "ldrsb  r8, [r1, #6]\n"                                                        \
    "ldrsb  r9, [r1, #7]\n"                                                        \
    "ldrsb  r10, [r1, #8]\n"

/* A column: the first taps of a new pixel, the second of the one before, and the last of the one before that.
 * */
#define TC_SCALAR_NEW(at, next)                                                    \
    "ldrsb  r1, [r0, #" at "]\n"                                                   \
    "mul    " next ", r1, r2\n"
#define TC_SCALAR_COLUMN(next, second, last)                                       \
    TC_SCALAR_NEW("8", next)                                                       \
    "mla    " second ", r1, r3, " second "\n"                                      \
    "mla    " last ", r1, r4, " last "\n"                                          \
    "ldrsb  r1, [r0, #9]\n"                                                        \
    "mla    " next ", r1, r5, " next "\n"                                          \
    "mla    " second ", r1, r6, " second "\n"                                      \
    "mla    " last ", r1, r7, " last "\n"                                          \
    "ldrsb  r1, [r0, #11]\n"                                                       \
    "mla    " next ", r1, r8, " next "\n"                                          \
    "mla    " second ", r1, r9, " second "\n"                                      \
    "mla    " last ", r1, r10, " last "\n"                                         \
    "str    " last ", [r0], #4\n"

/* columns [3 * ceil(n / 3) + 2] -> accumulators of n pixels (and of up to two more) at `columns`. */
static TC_NAKED void tc_scalar_dw3x3_1(int32_t *columns TC_UNUSED, const int8_t *w TC_UNUSED,
                                              int32_t n TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r2, r4-r11, lr}\n"
        TC_SCALAR_WEIGHTS
        TC_SCALAR_NEW("0", "r11")
        "ldrsb  r1, [r0, #1]\n"
        "mla    r11, r1, r5, r11\n"
        "ldrsb  r1, [r0, #3]\n"
        "mla    r11, r1, r8, r11\n"
        TC_SCALAR_NEW("4", "r12")
        "mla    r11, r1, r3, r11\n"
        "ldrsb  r1, [r0, #5]\n"
        "mla    r12, r1, r5, r12\n"
        "mla    r11, r1, r6, r11\n"
        "ldrsb  r1, [r0, #7]\n"
        "mla    r12, r1, r8, r12\n"
        "mla    r11, r1, r9, r11\n"
        ".p2align 2\n"
        "1:\n"
        TC_SCALAR_COLUMN("lr", "r12", "r11")
        TC_SCALAR_COLUMN("r11", "lr", "r12")
        TC_SCALAR_COLUMN("r12", "r11", "lr")
        "ldr    r1, [sp]\n"
        "subs   r1, #3\n"
        "str    r1, [sp]\n"
        "bgt    1b\n"
        "pop    {r2, r4-r11, pc}\n");
}

/* columns [2 * n + 1] -> accumulators of n pixels at `columns`. */
static TC_NAKED void tc_scalar_dw3x3_2(int32_t *columns TC_UNUSED, const int8_t *w TC_UNUSED,
                                              int32_t n TC_UNUSED)
{
#define TC_SCALAR_TAP(at, weight)                                                  \
    "ldrsb  r1, [r0, #" at "]\n"                                                   \
    "mla    r11, r1, " weight ", r11\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "mov    lr, r0\n"
        "add    r12, r0, r2, lsl #2\n"
        TC_SCALAR_WEIGHTS
        ".p2align 2\n"
        "1:\n"
        TC_SCALAR_NEW("0", "r11")
        TC_SCALAR_TAP("4", "r3")
        TC_SCALAR_TAP("8", "r4")
        TC_SCALAR_TAP("1", "r5")
        TC_SCALAR_TAP("5", "r6")
        TC_SCALAR_TAP("9", "r7")
        TC_SCALAR_TAP("3", "r8")
        TC_SCALAR_TAP("7", "r9")
        TC_SCALAR_TAP("11", "r10")
        "add    r0, r0, #8\n"
        "str    r11, [lr], #4\n"
        "cmp    lr, r12\n"
        "bne    1b\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SCALAR_TAP
}

#undef TC_SCALAR_WEIGHTS
#undef TC_SCALAR_NEW
#undef TC_SCALAR_COLUMN

#elif TC_SCALAR_THUMB1

/* Weight i to word i of the stack; r1: the weights. */
#define TC_SCALAR_WEIGHT(i)                                                        \
    "movs   r3, #" i "\n"                                                          \
    "ldrsb  r3, [r1, r3]\n"                                                        \
    "str    r3, [sp, #4 * " i "]\n"
#define TC_SCALAR_WEIGHTS                                                          \
    "push   {r4-r7, lr}\n"                                                         \
    "sub    sp, #36\n"                                                             \
    TC_SCALAR_WEIGHT("0") TC_SCALAR_WEIGHT("1") TC_SCALAR_WEIGHT("2")              \
    TC_SCALAR_WEIGHT("3") TC_SCALAR_WEIGHT("4") TC_SCALAR_WEIGHT("5")              \
    TC_SCALAR_WEIGHT("6") TC_SCALAR_WEIGHT("7") TC_SCALAR_WEIGHT("8")

#define TC_SCALAR_NEW(tap, i, acc)                                                 \
    "ldr    " acc ", [sp, #4 * " i "]\n"                                           \
    "muls   " acc ", " tap ", " acc "\n"
#define TC_SCALAR_TAP(tap, i, acc)                                                 \
    "ldr    r3, [sp, #4 * " i "]\n"                                                \
    "muls   r3, " tap ", r3\n"                                                     \
    "adds   " acc ", r3\n"
#define TC_SCALAR_MIDDLE "lsls   r2, r1, #16\n" "asrs   r2, r2, #24\n"

#define TC_SCALAR_COLUMN(next, second, last)                                       \
    "ldr    r1, [r0, #8]\n"                                                        \
    "sxtb   r2, r1\n"                                                              \
    TC_SCALAR_NEW("r2", "0", next) TC_SCALAR_TAP("r2", "1", second) TC_SCALAR_TAP("r2", "2", last) \
    TC_SCALAR_MIDDLE                                                               \
    TC_SCALAR_TAP("r2", "3", next) TC_SCALAR_TAP("r2", "4", second) TC_SCALAR_TAP("r2", "5", last) \
    "asrs   r1, r1, #24\n"                                                         \
    TC_SCALAR_TAP("r1", "6", next) TC_SCALAR_TAP("r1", "7", second) TC_SCALAR_TAP("r1", "8", last) \
    "stmia  r0!, {" last "}\n"

/* columns [3 * ceil(n / 3) + 2] -> accumulators of n pixels (and of up to two more) at `columns`. */
static TC_NAKED void tc_scalar_dw3x3_1(int32_t *columns TC_UNUSED, const int8_t *w TC_UNUSED,
                                              int32_t n TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        TC_SCALAR_WEIGHTS
        "mov    r7, r2\n"
        "ldr    r1, [r0]\n"
        "sxtb   r2, r1\n"
        TC_SCALAR_NEW("r2", "0", "r4")
        TC_SCALAR_MIDDLE
        TC_SCALAR_TAP("r2", "3", "r4")
        "asrs   r1, r1, #24\n"
        TC_SCALAR_TAP("r1", "6", "r4")
        "ldr    r1, [r0, #4]\n"
        "sxtb   r2, r1\n"
        TC_SCALAR_NEW("r2", "0", "r5")
        TC_SCALAR_TAP("r2", "1", "r4")
        TC_SCALAR_MIDDLE
        TC_SCALAR_TAP("r2", "3", "r5")
        TC_SCALAR_TAP("r2", "4", "r4")
        "asrs   r1, r1, #24\n"
        TC_SCALAR_TAP("r1", "6", "r5")
        TC_SCALAR_TAP("r1", "7", "r4")
        "1:\n"
        TC_SCALAR_COLUMN("r6", "r5", "r4")
        TC_SCALAR_COLUMN("r4", "r6", "r5")
        TC_SCALAR_COLUMN("r5", "r4", "r6")
        "subs   r7, #3\n"
        "bgt    1b\n"
        "add    sp, #36\n"
        "pop    {r4-r7, pc}\n");
}

/* columns [2 * n + 1] -> accumulators of n pixels at `columns`. */
static TC_NAKED void tc_scalar_dw3x3_2(int32_t *columns TC_UNUSED, const int8_t *w TC_UNUSED,
                                              int32_t n TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        TC_SCALAR_WEIGHTS
        "mov    r5, r0\n"
        "lsls   r6, r2, #2\n"
        "adds   r6, r6, r0\n"
        "1:\n"
        "ldr    r1, [r0]\n"
        "sxtb   r2, r1\n"
        TC_SCALAR_NEW("r2", "0", "r4")
        TC_SCALAR_MIDDLE
        TC_SCALAR_TAP("r2", "3", "r4")
        "asrs   r1, r1, #24\n"
        TC_SCALAR_TAP("r1", "6", "r4")
        "ldr    r1, [r0, #4]\n"
        "sxtb   r2, r1\n"
        TC_SCALAR_TAP("r2", "1", "r4")
        TC_SCALAR_MIDDLE
        TC_SCALAR_TAP("r2", "4", "r4")
        "asrs   r1, r1, #24\n"
        TC_SCALAR_TAP("r1", "7", "r4")
        "ldr    r1, [r0, #8]\n"
        "sxtb   r2, r1\n"
        TC_SCALAR_TAP("r2", "2", "r4")
        TC_SCALAR_MIDDLE
        TC_SCALAR_TAP("r2", "5", "r4")
        "asrs   r1, r1, #24\n"
        TC_SCALAR_TAP("r1", "8", "r4")
        "adds   r0, #8\n"
        "stmia  r5!, {r4}\n"
        "cmp    r5, r6\n"
        "bne    1b\n"
        "add    sp, #36\n"
        "pop    {r4-r7, pc}\n");
}

#undef TC_SCALAR_WEIGHT
#undef TC_SCALAR_WEIGHTS
#undef TC_SCALAR_NEW
#undef TC_SCALAR_TAP
#undef TC_SCALAR_MIDDLE
#undef TC_SCALAR_COLUMN

#else

static inline void tc_scalar_dw3x3(int32_t *columns, const int8_t *w, int32_t n, int32_t stride)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t acc = 0;
        for (int32_t kx = 0; kx < 3; kx++) {
            const int32_t column = columns[i * stride + kx];
            acc += (int8_t)column * w[kx] + (int8_t)(column >> 8) * w[3 + kx] + (column >> 24) * w[6 + kx];
        }
        columns[i] = acc;
    }
}

static TC_UNUSED void tc_scalar_dw3x3_1(int32_t *columns, const int8_t *w, int32_t n)
{
    tc_scalar_dw3x3(columns, w, n, 1);
}

static TC_UNUSED void tc_scalar_dw3x3_2(int32_t *columns, const int8_t *w, int32_t n)
{
    tc_scalar_dw3x3(columns, w, n, 2);
}

#endif

static inline int32_t tc_scalar_column(int8_t a, int8_t b, int8_t c)
{
    return (int32_t)((uint32_t)(uint8_t)a | (uint32_t)(uint8_t)b << 8 | (uint32_t)(uint8_t)c << 24);
}

/* The row of channel c with its weights w [3][3]. */
static inline void tc_scalar_dw3x3_channel(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                           const int8_t *const *x, int8_t *y, int32_t *columns, int32_t c,
                                           const int8_t *w)
{
    const int32_t in_c = p->out.out_c, left = p->pad_left;
    const int32_t inside = p->columns - left < p->in_w ? p->columns - left : p->in_w;
    const int32_t outside = tc_scalar_column((int8_t)p->x_zero, (int8_t)p->x_zero, (int8_t)p->x_zero);

    const int8_t *x0 = x[0] + c, *x1 = x[1] + c, *x2 = x[2] + c;
    int32_t *to = columns;
    int32_t i = 0;
    for (; i < left; i++) {
        *to++ = outside;
    }
    int32_t *const end = to + inside;
    for (int32_t at = 0; to < end; at += in_c) {
        *to++ = tc_scalar_column(x0[at], x1[at], x2[at]);
    }
    for (i += inside; i < p->columns; i++) {
        *to++ = outside;
    }
    if (p->stride_w == 1) {
        tc_scalar_dw3x3_1(columns, w, p->out_w);
    } else {
        tc_scalar_dw3x3_2(columns, w, p->out_w);
    }
    p->store(&p->out, columns, c, p->out_w, y + c, in_c);
}

static TC_UNUSED void tc_depthwise_conv2d_3x3_s8_scalar(const tc_depthwise_conv2d_3x3_s8_scalar_t *p,
                                                               const int8_t *const *x, int8_t *y,
                                                                   void *scratch)
{
    for (int32_t c = 0; c < p->out.out_c; c++) {
        tc_scalar_dw3x3_channel(p, x, y, (int32_t *)scratch, c, p->w + 9 * c);
    }
}

#endif
