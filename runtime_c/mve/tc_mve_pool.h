/* SPDX-License-Identifier: 0BSD */
/* Pooling with Helium (MVE): the largest, or the rounded mean, of a window's taps, channels side by side.
 *
 * taps: n pointers to pixels of int8, of which channels [at, at + channels) count, at most 16 (mean: 8).
 */
#ifndef TC_MVE_POOL_H
#define TC_MVE_POOL_H

#include "tc_mve.h"

#define TC_MVE_TAPS 64 /* of a window, at most */

typedef struct {
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t y_min, y_max;
    int32_t count_pad, x_zero;
} tc_mve_pool_t;

/* What a mean divides by: (sum * factor >> 16) >> shift is sum / n for every sum of int8 and its rounding. */
typedef struct {
    int32_t extra, half, factor, shift, y_min, y_max;
} tc_mve_mean_t;

/* n taps, of `count` that are divided by: the others are x_zero. */
static inline void tc_mve_mean_of(tc_mve_mean_t *p, int32_t n, int32_t count, int32_t x_zero)
{
    int32_t shift = 0;
    while ((2 << shift) < count) {
        shift++;
    }
    p->extra = (count - n) * x_zero;
    p->half = count / 2;
    p->factor = (int32_t)((((uint32_t)65536 << shift) + (uint32_t)count - 1) / (uint32_t)count);
    p->shift = -shift;
}

#if TC_MVE_ASM

static TC_NAKED void tc_mve_largest(const int8_t *const *taps TC_UNUSED, int32_t n TC_UNUSED,
                                    int32_t at TC_UNUSED, int8_t *y TC_UNUSED, int32_t channels TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "ldr    r12, [sp]\n"
        "push   {r4, lr}\n"
        "vctp.8 r12\n"
        "vmov.i8 q0, #0x80\n"
        "mov    lr, r1\n"
        "1:\n"
        "ldr    r4, [r0], #4\n"
        "add    r4, r4, r2\n"
        "vpst\n"
        "vldrbt.u8 q1, [r4]\n"
        "vmax.s8 q0, q0, q1\n"
        "le     lr, 1b\n"
        "vpst\n"
        "vstrbt.8 q0, [r3]\n"
        "pop    {r4, pc}\n");
}

static TC_NAKED void tc_mve_mean(const int8_t *const *taps TC_UNUSED, int32_t n TC_UNUSED,
                                 int32_t at TC_UNUSED, int8_t *y TC_UNUSED, int32_t channels TC_UNUSED,
                                 const tc_mve_mean_t *p TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        "ldrd   r5, r6, [sp, #32]\n"
        "vctp.16 r5\n"
        "ldr    r4, [r6]\n"
        "vdup.16 q0, r4\n"
        "mov    lr, r1\n"
        "1:\n"
        "ldr    r4, [r0], #4\n"
        "add    r4, r4, r2\n"
        "vpst\n"
        "vldrbt.s16 q1, [r4]\n"
        "vadd.i16 q0, q0, q1\n"
        "le     lr, 1b\n"
        "ldrd   r7, r8, [r6, #4]\n"
        "ldrd   r9, r10, [r6, #12]\n"
        "vdup.16 q2, r8\n"
        "vabs.s16 q1, q0\n"
        "vadd.i16 q1, q1, r7\n"
        "vmulh.u16 q1, q1, q2\n"
        "vshl.u16 q1, r9\n"
        "ldr    r7, [r6, #20]\n"
        "vdup.16 q2, r10\n"
        "vdup.16 q3, r7\n"
        "vcmp.s16 lt, q0, zr\n"
        "vpst\n"
        "vnegt.s16 q1, q1\n"
        "vmax.s16 q1, q1, q2\n"
        "vmin.s16 q1, q1, q3\n"
        "vctp.16 r5\n"
        "vpst\n"
        "vstrbt.16 q1, [r3]\n"
        "pop    {r4-r10, pc}\n");
}

#else

static inline void tc_mve_largest(const int8_t *const *taps, int32_t n, int32_t at, int8_t *y,
                                  int32_t channels)
{
    for (int32_t c = 0; c < channels && c < 16; c++) {
        int8_t largest = -128;
        for (int32_t i = 0; i < n; i++) {
            largest = taps[i][at + c] > largest ? taps[i][at + c] : largest;
        }
        y[c] = largest;
    }
}

static inline void tc_mve_mean(const int8_t *const *taps, int32_t n, int32_t at, int8_t *y,
                               int32_t channels, const tc_mve_mean_t *p)
{
    for (int32_t c = 0; c < channels && c < 8; c++) {
        int32_t sum = p->extra;
        for (int32_t i = 0; i < n; i++) {
            sum += taps[i][at + c];
        }
        const uint32_t whole = (uint32_t)((sum < 0 ? -sum : sum) + p->half) * (uint32_t)p->factor;
        const int32_t size = (int32_t)(whole >> 16) >> -p->shift;
        y[c] = (int8_t)tc_clamp(sum < 0 ? -size : size, p->y_min, p->y_max);
    }
}

#endif

/* The taps of one window that lie inside the image, and how many; x: k_h rows, null where there is none. */
static inline int32_t tc_mve_taps(const int8_t **taps, const int8_t *const *x, int32_t k_h, int32_t k_w,
                                  int32_t first, int32_t dilation, int32_t in_w, int32_t in_c)
{
    int32_t n = 0;
    for (int32_t ky = 0; ky < k_h; ky++) {
        int32_t ix = first;
        for (int32_t kx = 0; x[ky] && kx < k_w; kx++, ix += dilation) {
            if (ix >= 0 && ix < in_w) taps[n++] = x[ky] + ix * in_c;
        }
    }
    return n;
}

#endif
