/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution with int4 weights on a core without DSP instructions, three pixels at a time:
 * tc_conv2d_s8_scalar.h, but for the weights.
 *
 * nibbles [out_c / 4][taps / 2]: a word has two taps s, t of four channels, from the top s0 s1 t0 t1 s2 s3 t2
 * t3. taps is a multiple of 4, zeros beyond the last channel and tap. No |sum of x * w| reaches 2^20.
 * layer.w, layer.segment: not used.
 */
#ifndef TC_CONV2D_S8_W4_SCALAR_H
#define TC_CONV2D_S8_W4_SCALAR_H

#include "tc_conv2d_s8_scalar.h"

typedef struct {
    const int32_t *nibbles;
    tc_conv2d_s8_scalar_t layer;
} tc_conv2d_s8_w4_scalar_t;

#if TC_SCALAR_THUMB2

/* taps x [taps][X1, X2] up to `end` times w [taps / 2] -> p [4][P1, P2]. */
static TC_NAKED void tc_scalar_nibbles4(const int32_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                               const int32_t *end TC_UNUSED, int32_t *p TC_UNUSED)
{
#define TC_SCALAR_CHANNEL(at, sum1, sum2)                                          \
    "sbfx   lr, r2, #" at ", #4\n"                                                 \
    "mla    " sum1 ", lr, r3, " sum1 "\n"                                          \
    "mla    " sum2 ", lr, r12, " sum2 "\n"
#define TC_SCALAR_TAP(at0, at1, at2, at3)                                          \
    "ldrd   r3, r12, [r0], #8\n"                                                   \
    TC_SCALAR_CHANNEL(at0, "r4", "r5") TC_SCALAR_CHANNEL(at1, "r6", "r7")          \
    TC_SCALAR_CHANNEL(at2, "r8", "r9") TC_SCALAR_CHANNEL(at3, "r10", "r11")
#define TC_SCALAR_WORD                                                             \
    "ldr    r2, [r1], #4\n"                                                        \
    TC_SCALAR_TAP("28", "24", "12", "8") TC_SCALAR_TAP("20", "16", "4", "0")
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r2-r11, lr}\n"
        "movs   r4, #0\n"
        "movs   r5, #0\n"
        "movs   r6, #0\n"
        "movs   r7, #0\n"
        "mov    r8, r4\n"
        "mov    r9, r4\n"
        "mov    r10, r4\n"
        "mov    r11, r4\n"
        ".p2align 2\n"
        "1:\n"
        TC_SCALAR_WORD
        TC_SCALAR_WORD
        "ldr    lr, [sp]\n"
        "cmp    r0, lr\n"
        "bne    1b\n"
        "pop    {r2, r3}\n"
        "stm    r3, {r4-r11}\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SCALAR_WORD
#undef TC_SCALAR_TAP
#undef TC_SCALAR_CHANNEL
}

#elif TC_SCALAR_THUMB1

#define TC_SCALAR_TAP                                                              \
    "ldmia  r0!, {r2, r3}\n"                                                       \
    "asrs   r4, r6, #28\n"                                                         \
    "lsls   r6, r6, #4\n"                                                          \
    "mov    r5, r4\n"                                                              \
    "muls   r5, r2, r5\n"                                                          \
    "add    r8, r5\n"                                                              \
    "muls   r4, r3, r4\n"                                                          \
    "add    r9, r4\n"                                                              \
    "asrs   r4, r6, #28\n"                                                         \
    "lsls   r6, r6, #4\n"                                                          \
    "muls   r2, r4, r2\n"                                                          \
    "add    r10, r2\n"                                                             \
    "muls   r3, r4, r3\n"                                                          \
    "add    r11, r3\n"
/* The sums of two channels; half: brings their weights to the top. */
#define TC_SCALAR_NIBBLES2(half)                                                   \
    __asm__ volatile(                                                              \
        ".syntax unified\n"                                                        \
        "push   {r3-r7, lr}\n"                                                     \
        "mov    r4, r8\n"                                                          \
        "mov    r5, r9\n"                                                          \
        "mov    r6, r10\n"                                                         \
        "mov    r7, r11\n"                                                         \
        "push   {r4-r7}\n"                                                         \
        "mov    r7, r1\n"                                                          \
        "mov    r12, r2\n"                                                         \
        "movs   r4, #0\n"                                                          \
        "mov    r8, r4\n"                                                          \
        "mov    r9, r4\n"                                                          \
        "mov    r10, r4\n"                                                         \
        "mov    r11, r4\n"                                                         \
        "1:\n"                                                                     \
        "ldmia  r7!, {r6}\n" half                                                  \
        TC_SCALAR_TAP                                                              \
        TC_SCALAR_TAP                                                              \
        "ldmia  r7!, {r6}\n" half                                                  \
        TC_SCALAR_TAP                                                              \
        TC_SCALAR_TAP                                                              \
        "cmp    r0, r12\n"                                                         \
        "bne    1b\n"                                                              \
        "mov    r2, r8\n"                                                          \
        "mov    r3, r9\n"                                                          \
        "mov    r0, r10\n"                                                         \
        "mov    r1, r11\n"                                                         \
        "pop    {r4-r7}\n"                                                         \
        "mov    r8, r4\n"                                                          \
        "mov    r9, r5\n"                                                          \
        "mov    r10, r6\n"                                                         \
        "mov    r11, r7\n"                                                         \
        "pop    {r4}\n"                                                            \
        "str    r2, [r4]\n"                                                        \
        "str    r3, [r4, #4]\n"                                                    \
        "str    r0, [r4, #8]\n"                                                    \
        "str    r1, [r4, #12]\n"                                                   \
        "pop    {r4-r7, pc}\n")

static TC_NAKED void tc_scalar_nibbles_upper(const int32_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                                    const int32_t *end TC_UNUSED, int32_t *p TC_UNUSED)
{
    TC_SCALAR_NIBBLES2("");
}

static TC_NAKED void tc_scalar_nibbles_lower(const int32_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                                    const int32_t *end TC_UNUSED, int32_t *p TC_UNUSED)
{
    TC_SCALAR_NIBBLES2("lsls   r6, r6, #16\n");
}

#undef TC_SCALAR_NIBBLES2
#undef TC_SCALAR_TAP

static inline void tc_scalar_nibbles4(const int32_t *x, const int32_t *w, const int32_t *end, int32_t *p)
{
    tc_scalar_nibbles_upper(x, w, end, p);
    tc_scalar_nibbles_lower(x, w, end, p + 4);
}

#else

/* Four bits of a word from bit `at` on. */
TC_INLINE uint32_t tc_scalar_nibble(int32_t word, int32_t at)
{
    return (uint32_t)((int32_t)((uint32_t)word << (28 - at)) >> 28);
}

static TC_UNUSED void tc_scalar_nibbles4(const int32_t *x, const int32_t *w, const int32_t *end, int32_t *p)
{
    static const int8_t places[2][4] = {{28, 24, 12, 8}, {20, 16, 4, 0}};
    uint32_t sums[8];
    tc_clear((int32_t *)sums, 8);
    for (; x < end; w++) {
        for (int32_t tap = 0; tap < 2; tap++, x += 2) {
            for (int32_t i = 0; i < 4; i++) {
                const uint32_t weight = tc_scalar_nibble(*w, places[tap][i]);
                sums[2 * i] += (uint32_t)x[0] * weight;
                sums[2 * i + 1] += (uint32_t)x[1] * weight;
            }
        }
    }
    for (int32_t i = 0; i < 8; i++) {
        p[i] = (int32_t)sums[i];
    }
}

#endif

static TC_UNUSED void tc_conv2d_s8_w4_scalar(const tc_conv2d_s8_w4_scalar_t *p, const int8_t *const *x,
                                             int8_t *y, void *scratch)
{
    const tc_conv2d_s8_scalar_t *const layer = &p->layer;
    int32_t *const packed = (int32_t *)scratch;
    int32_t *const end = packed + 2 * layer->taps;
    const int32_t out_c = layer->out.out_c, real = 2 * layer->k_h * layer->k_w * layer->in_c;

    for (int32_t ox = 0; ox < layer->out_w; ox += 3, y += 3 * out_c) {
        const int32_t n = layer->out_w - ox < 3 ? layer->out_w - ox : 3;
        const int32_t *w = p->nibbles;
        tc_conv2d_s8_scalar_gather(layer, x, ox, n, packed);
        for (int32_t *to = packed + real; to < end; to++) {
            *to = 0;
        }
        for (int32_t o = 0; o < out_c; o += 4, w += layer->taps >> 1) {
            int32_t sums[8];
            tc_scalar_nibbles4(packed, w, end, sums);
            layer->store(&layer->out, sums, 0, o, n, y);
        }
    }
}

#endif
