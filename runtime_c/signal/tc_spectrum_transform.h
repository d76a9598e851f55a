/* SPDX-License-Identifier: 0BSD */
/* The Fourier transform of tinyc/ops/transform.py, in place: points in bit-reversed order -> half + 1 bins.
 *
 * Numbers stay within int32 where those before are at most 2^29 / radix. y [2 half + 2].
 */
#ifndef TC_SPECTRUM_TRANSFORM_H
#define TC_SPECTRUM_TRANSFORM_H

#include "tc_spectrum_math.h"

#define TC_QUARTER (1 << 30) /* a quarter, as the factor of a product of which the upper half is kept */

typedef struct {
    int32_t re, im;
} tc_point_t;

static inline tc_point_t tc_point_quarter(const int32_t *z)
{
    const tc_point_t y = {tc_upper(z[0], TC_QUARTER), tc_upper(z[1], TC_QUARTER)};
    return y;
}

static inline tc_point_t tc_point_turned(int32_t re, int32_t im, const int32_t *t)
{
    const tc_point_t y = {
        tc_less_upper(tc_upper(re, t[0]), im, t[1]),
        tc_plus_upper(tc_upper(re, t[1]), im, t[0]),
    };
    return y;
}

/* Four parts -> points at z, z + m, z + 2 m, z + 3 m; m in numbers. */
TC_INLINE void tc_point_four(const tc_point_t *a, const tc_point_t *b, const tc_point_t *c,
                             const tc_point_t *d, int32_t *z, int32_t m)
{
    const tc_point_t e = {a->re + c->re, a->im + c->im}, f = {a->re - c->re, a->im - c->im};
    const tc_point_t g = {b->re + d->re, b->im + d->im}, h = {b->re - d->re, b->im - d->im};

    z[0] = e.re + g.re;
    z[1] = e.im + g.im;
    z[m] = f.re + h.im;
    z[m + 1] = f.im - h.re;
    z[2 * m] = e.re - g.re;
    z[2 * m + 1] = e.im - g.im;
    z[3 * m] = f.re - h.im;
    z[3 * m + 1] = f.im + h.re;
}

/* A butterfly of radix 2 of the first step. */
static inline void tc_transform_two(int32_t *y)
{
    const tc_point_t a = {y[0], y[1]}, b = {y[2], y[3]};

    y[0] = a.re + b.re;
    y[1] = a.im + b.im;
    y[2] = a.re - b.re;
    y[3] = a.im - b.im;
}

/* Points of four parts, m numbers apart, that are turned and combined. */
TC_INLINE void tc_transform_turn(int32_t *z, int32_t m, const int32_t *t)
{
    const tc_point_t a = tc_point_quarter(z);
    const tc_point_t c = tc_point_turned(z[m], z[m + 1], t + 2);
    const tc_point_t b = tc_point_turned(z[2 * m], z[2 * m + 1], t);
    const tc_point_t d = tc_point_turned(z[3 * m], z[3 * m + 1], t + 4);

    tc_point_four(&a, &b, &c, &d, z, m);
}

#if TC_DSP_ASM

/* The first step: sums alone. A butterfly of radix 4, in the order a, c, b, d. */
static TC_NAKED void tc_transform_first_of_four(int32_t *y TC_UNUSED, const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        ".p2align 2\n"
        "1:\n"
        "ldm    r0, {r2-r9}\n"
        "add    r2, r2, r4\n" /* e: r2, r3; f: r4, r5; g: r6, r7; h: r8, r9 */
        "add    r3, r3, r5\n"
        "sub    r4, r2, r4, lsl #1\n"
        "sub    r5, r3, r5, lsl #1\n"
        "add    r6, r6, r8\n"
        "add    r7, r7, r9\n"
        "sub    r8, r6, r8, lsl #1\n"
        "sub    r9, r7, r9, lsl #1\n"
        "add    r2, r2, r6\n"
        "add    r3, r3, r7\n"
        "sub    r6, r2, r6, lsl #1\n"
        "sub    r7, r3, r7, lsl #1\n"
        "add    r4, r4, r9\n"
        "sub    r5, r5, r8\n"
        "sub    r10, r4, r9, lsl #1\n"
        "add    r9, r5, r8, lsl #1\n"
        "mov    r8, r10\n"
        "stm    r0!, {r2-r9}\n"
        "cmp    r0, r1\n"
        "bne    1b\n"
        "pop    {r4-r10, pc}\n");
}

/* Two butterflies of radix 2. */
static TC_NAKED void tc_transform_first_of_two(int32_t *y TC_UNUSED, const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r9, lr}\n"
        ".p2align 2\n"
        "1:\n"
        "ldm    r0, {r2-r9}\n"
        "add    r2, r2, r4\n"
        "add    r3, r3, r5\n"
        "add    r6, r6, r8\n"
        "add    r7, r7, r9\n"
        "sub    r4, r2, r4, lsl #1\n"
        "sub    r5, r3, r5, lsl #1\n"
        "sub    r8, r6, r8, lsl #1\n"
        "sub    r9, r7, r9, lsl #1\n"
        "stm    r0!, {r2-r9}\n"
        "cmp    r0, r1\n"
        "bne    1b\n"
        "pop    {r4-r9, pc}\n");
}

static inline void tc_transform_first(int32_t radix, int32_t *y, const int32_t *end)
{
    if (radix == 4) {
        tc_transform_first_of_four(y, end);
        return;
    }
    if ((end - y) % 8 != 0) {
        tc_transform_two(y);
        y += 4;
    }
    tc_transform_first_of_two(y, end);
}

/* A step of radix 4 that combines parts of m numbers, in place, block after block. t: its twiddles, without
 * those of points 0.
 *
 * r0: a point, r1: twiddles, r2: bytes of a part. Parts lie in the order a, c, b, d. [sp]: where the first
 * part of the block ends, [sp, #4]: the twiddles, [sp, #8]: where all ends.
 */
static TC_NAKED void tc_transform_step(const int32_t *t TC_UNUSED, int32_t m TC_UNUSED, int32_t *z TC_UNUSED,
                                       int32_t *end TC_UNUSED)
{
/* e = (x, y), f = (r3, r4), g = (u, v), h = (r5, r8), r0 at part d -> r0 at the next point of part a. r9,
 * r12: scratch. */
#define TC_TRANSFORM_OUT(x, y, u, v)                                               \
    "sub    r9, r3, r8\n"                                                          \
    "add    r12, r4, r5\n"                                                         \
    "strd   r9, r12, [r0]\n"                                                       \
    "sub    r0, r0, r2\n"                                                          \
    "sub    r9, " x ", " u "\n"                                                    \
    "sub    r12, " y ", " v "\n"                                                   \
    "strd   r9, r12, [r0]\n"                                                       \
    "sub    r0, r0, r2\n"                                                          \
    "add    r9, r3, r8\n"                                                          \
    "sub    r12, r4, r5\n"                                                         \
    "strd   r9, r12, [r0]\n"                                                       \
    "sub    r0, r0, r2\n"                                                          \
    "add    r9, " x ", " u "\n"                                                    \
    "add    r12, " y ", " v "\n"                                                   \
    "strd   r9, r12, [r0], #8\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r3-r11, lr}\n"
        "sub    sp, #8\n"
        "str    r0, [sp, #4]\n"
        "lsl    r1, r1, #2\n"
        "mov    r0, r2\n"
        "mov    r2, r1\n"
        ".p2align 2\n"
        "1:\n" /* point 0 of a block */
        "add    r1, r0, r2\n"
        "str    r1, [sp]\n"
        "mov    lr, #0x40000000\n"
        "ldrd   r3, r4, [r0]\n"
        "ldrd   r11, r12, [r1]\n"
        "add    r0, r1, r2\n"
        "ldrd   r7, r8, [r0]\n"
        "add    r0, r0, r2\n"
        "ldrd   r9, r10, [r0]\n"
        "smmulr r3, r3, lr\n"
        "smmulr r4, r4, lr\n"
        "smmulr r11, r11, lr\n"
        "smmulr r12, r12, lr\n"
        "smmulr r7, r7, lr\n"
        "smmulr r8, r8, lr\n"
        "smmulr r9, r9, lr\n"
        "smmulr r10, r10, lr\n"
        "add    r6, r3, r11\n"
        "sub    r3, r3, r11\n"
        "add    r14, r4, r12\n"
        "sub    r4, r4, r12\n"
        "add    r11, r7, r9\n"
        "sub    r5, r7, r9\n"
        "add    r7, r8, r10\n"
        "sub    r8, r8, r10\n"
        TC_TRANSFORM_OUT("r6", "r14", "r11", "r7")
        "ldr    r1, [sp, #4]\n"
        ".p2align 2\n"
        "2:\n" /* its other points */
        "ldrd   r3, r4, [r0]\n"
        "add    r0, r0, r2\n"
        "ldrd   r5, r6, [r0]\n"
        "add    r0, r0, r2\n"
        "ldrd   r7, r8, [r1, #8]\n"
        "mov    lr, #0x40000000\n"
        "smmulr r3, r3, lr\n"
        "smmulr r4, r4, lr\n"
        "smmulr lr, r5, r7\n"
        "smmulr r5, r5, r8\n"
        "smmlsr lr, r6, r8, lr\n"
        "smmlar r5, r6, r7, r5\n"
        "add    r6, r3, lr\n"
        "sub    r3, r3, lr\n"
        "add    r7, r4, r5\n"
        "sub    r4, r4, r5\n"
        "ldrd   r8, r9, [r0]\n"
        "add    r0, r0, r2\n"
        "ldrd   r10, r11, [r1], #16\n"
        "smmulr r5, r8, r10\n"
        "smmulr r8, r8, r11\n"
        "smmlsr r5, r9, r11, r5\n"
        "smmlar r8, r9, r10, r8\n"
        "ldrd   r9, r10, [r0]\n"
        "ldrd   r11, r12, [r1], #8\n"
        "smmulr lr, r9, r11\n"
        "smmulr r9, r9, r12\n"
        "smmlsr lr, r10, r12, lr\n"
        "smmlar r9, r10, r11, r9\n"
        "add    r10, r5, lr\n"
        "sub    r5, r5, lr\n"
        "add    r11, r8, r9\n"
        "sub    r8, r8, r9\n"
        TC_TRANSFORM_OUT("r6", "r7", "r10", "r11")
        "ldr    r12, [sp]\n"
        "cmp    r0, r12\n"
        "bne    2b\n"
        "ldr    r12, [sp, #8]\n"
        "add    r0, r0, r2, lsl #1\n"
        "add    r0, r0, r2\n"
        "cmp    r0, r12\n"
        "bne    1b\n"
        "add    sp, #12\n"
        "pop    {r4-r11, pc}\n");
#undef TC_TRANSFORM_OUT
}

/* Pairs of points, low and high with high - low >= 0 -> of the transform of all samples; t: split. */
static TC_NAKED void tc_transform_pairs(const int32_t *t TC_UNUSED, int32_t *low TC_UNUSED,
                                        int32_t *high TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "mov    lr, #0x40000000\n"
        ".p2align 2\n"
        "1:\n"
        "ldrd   r3, r4, [r1]\n"
        "ldrd   r5, r6, [r2]\n"
        "ldrd   r7, r8, [r0], #8\n"
        "sub    r9, r3, r5\n"
        "add    r10, r4, r6\n"
        "add    r3, r3, r5\n"
        "sub    r4, r4, r6\n"
        "smmulr r5, r9, r7\n"
        "smmulr r9, r9, r8\n"
        "smmlsr r5, r10, r8, r5\n"
        "smmlar r9, r10, r7, r9\n"
        "smmulr r3, r3, lr\n"
        "smmulr r4, r4, lr\n"
        "add    r6, r3, r5\n"
        "add    r7, r4, r9\n"
        "sub    r3, r3, r5\n"
        "sub    r4, r9, r4\n"
        "strd   r6, r7, [r1], #8\n"
        "strd   r3, r4, [r2], #-8\n"
        "cmp    r1, r2\n"
        "bls    1b\n"
        "pop    {r4-r11, pc}\n");
}

#else

/* The first step: sums alone. */
static inline void tc_transform_first(int32_t radix, int32_t *y, const int32_t *end)
{
    if (radix == 4) {
        for (; y < end; y += 8) {
            const tc_point_t a = {y[0], y[1]}, c = {y[2], y[3]}, b = {y[4], y[5]}, d = {y[6], y[7]};
            tc_point_four(&a, &b, &c, &d, y, 2);
        }
    } else {
        for (; y < end; y += 4) {
            tc_transform_two(y);
        }
    }
}

static inline void tc_transform_step(const int32_t *t, int32_t m, int32_t *z, int32_t *end)
{
    for (int32_t *at = z; at < end; at += 4 * m) {
        const tc_point_t a = tc_point_quarter(at), c = tc_point_quarter(at + m);
        const tc_point_t b = tc_point_quarter(at + 2 * m), d = tc_point_quarter(at + 3 * m);
        tc_point_four(&a, &b, &c, &d, at, m);
        for (int32_t k = 2; k < m; k += 2) {
            tc_transform_turn(at + k, m, t + 3 * (k - 2));
        }
    }
}

static inline void tc_transform_pairs(const int32_t *t, int32_t *low, int32_t *high)
{
    for (; low <= high; low += 2, high -= 2, t += 2) {
        const tc_point_t turned = tc_point_turned(low[0] - high[0], low[1] + high[1], t);
        const int32_t sum_re = tc_upper(low[0] + high[0], TC_QUARTER), sum_im = tc_upper(low[1] - high[1],
            TC_QUARTER);
        low[0] = sum_re + turned.re;
        low[1] = sum_im + turned.im;
        high[0] = sum_re - turned.re;
        high[1] = turned.im - sum_im;
    }
}

#endif

/* The lowest and the highest frequency, which are real, from the transform of even and odd samples. */
static inline void tc_transform_ends(int32_t half, int32_t *y)
{
    const int32_t re = y[0], im = y[1];

    y[0] = (re + im + 1) >> 1;
    y[1] = 0;
    y[2 * half] = (re - im + 1) >> 1;
    y[2 * half + 1] = 0;
}

/* From the transform of even and odd samples to that of all. */
static inline void tc_transform_split(const int32_t *t, int32_t half, int32_t *y)
{
    tc_transform_ends(half, y);
    tc_transform_pairs(t, y + 2, y + 2 * half - 2);
}

/* twiddles: for each step but the first, for k = 1 .. m - 1, those of points k of parts 1, 2 and 3. split
 * [half / 2][2]. */
static inline void tc_spectrum_transform(const int32_t *twiddles, const int32_t *split, int32_t half,
                                         int32_t radix, int32_t *y)
{
    const int32_t *t = twiddles;
    int32_t *const end = y + 2 * half;

    tc_transform_first(radix, y, end);
    for (int32_t m = 2 * radix; m < 2 * half; m *= 4) {
        tc_transform_step(t, m, y, end);
        t += 3 * (m - 2);
    }
    tc_transform_split(split, half, y);
}

#endif
