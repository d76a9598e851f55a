/* SPDX-License-Identifier: 0BSD */
/* The DSP extension of Armv7E-M and Armv8-M (Cortex-M4, M7, M33, M35P, M55, M85) for int8 layers.
 *
 * First the instructions, then what the weighted kernels share: unpacking int8 into pairs of int16, dot
 * products of packed weights, and the way from accumulators to int8. Other machines run plain C twins with
 * equal results, so that every kernel can be tested on the host.
 *
 * Packed weights ("A over B"). Weights stay one byte each. A word holds two taps of two output channels A and
 * B: each half of it is the number 256 * a + b. So SMLAD with the raw word adds 256 * A + B to an accumulator
 * T, SMLAD with SXTB16 of the word adds B to another, and A = (T - B) / 256 in the end: one unpacking
 * instruction for four weights. Exact when all weights lie in [-127, 127] and |sum of x * a| < 2^23 in one
 * call; everything else may wrap.
 *
 * Taps go by fours ("units") in the order (0, 2), (1, 3), since that is how SXTB16 unpacks a word of int8.
 */
#ifndef TC_DSP_H
#define TC_DSP_H

#include "tc_math.h"

#if TC_GNU && defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && defined(__thumb2__) &&       \
    !defined(__ARM_BIG_ENDIAN)
#define TC_DSP_ASM 1
#else
#define TC_DSP_ASM 0
#endif

#if TC_GNU && !TC_DSP_ASM && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
#pragma message("made for a core with DSP instructions, compiled without: slow; -DTC_PORTABLE if meant")
#endif
#endif

/* ---- instructions; a packed word is [hi16 : lo16] ---- */

static inline int32_t tc_lo16(int32_t x)
{
    return (int16_t)(uint16_t)x;
}

static inline int32_t tc_hi16(int32_t x)
{
    return x >> 16;
}

#if TC_DSP_ASM

#define TC_DSP_3(name, op)                                                         \
    static inline int32_t name(int32_t x, int32_t y, int32_t acc)                  \
    {                                                                              \
        int32_t r;                                                                 \
        __asm__(op " %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(acc));        \
        return r;                                                                  \
    }
TC_DSP_3(tc_smlad, "smlad")
TC_DSP_3(tc_smlabb, "smlabb")
TC_DSP_3(tc_smlabt, "smlabt")
TC_DSP_3(tc_smlatb, "smlatb")
TC_DSP_3(tc_smlatt, "smlatt")
TC_DSP_3(tc_smmla, "smmla")
TC_DSP_3(tc_smmlar, "smmlar")
#undef TC_DSP_3

#define TC_DSP_1(name, text)                                                       \
    static inline int32_t name(int32_t x)                                          \
    {                                                                              \
        int32_t r;                                                                 \
        __asm__(text : "=r"(r) : "r"(x));                                          \
        return r;                                                                  \
    }
TC_DSP_1(tc_sxtb16, "sxtb16 %0, %1")
TC_DSP_1(tc_sxtb16_ror8, "sxtb16 %0, %1, ror #8")
TC_DSP_1(tc_ssat8, "ssat %0, #8, %1")
#undef TC_DSP_1

#define TC_DSP_2(name, text)                                                       \
    static inline int32_t name(int32_t x, int32_t y)                               \
    {                                                                              \
        int32_t r;                                                                 \
        __asm__(text : "=r"(r) : "r"(x), "r"(y));                                  \
        return r;                                                                  \
    }
TC_DSP_2(tc_pkhbt, "pkhbt %0, %1, %2, lsl #16")
TC_DSP_2(tc_pkhtb, "pkhtb %0, %1, %2, asr #16")
#undef TC_DSP_2

/* Four int8 in memory order, any address. */
static inline int32_t tc_load4(const int8_t *p)
{
    return (int32_t)tc_load_word(p);
}

#else

static inline int32_t tc_wrap(int64_t x) /* modulo 2^32 */
{
    return (int32_t)(uint32_t)(uint64_t)x;
}

static inline int32_t tc_halves(int32_t hi, int32_t lo)
{
    return (int32_t)((uint32_t)hi << 16 | ((uint32_t)lo & 0xffff));
}

/* acc + both products of halves */
static inline int32_t tc_smlad(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_lo16(y) + (int64_t)tc_hi16(x) * tc_hi16(y) + acc);
}

/* acc + one product of halves: bottom or top of x, bottom or top of y */
static inline int32_t tc_smlabb(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_lo16(y) + acc);
}
static inline int32_t tc_smlabt(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_lo16(x) * tc_hi16(y) + acc);
}
static inline int32_t tc_smlatb(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_hi16(x) * tc_lo16(y) + acc);
}
static inline int32_t tc_smlatt(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((int64_t)tc_hi16(x) * tc_hi16(y) + acc);
}

/* acc + (x * y >> 32), and the same with the product rounded */
static inline int32_t tc_smmla(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((((int64_t)x * y) >> 32) + acc);
}
static inline int32_t tc_smmlar(int32_t x, int32_t y, int32_t acc)
{
    return tc_wrap((((int64_t)x * y + 0x80000000LL) >> 32) + acc);
}

/* bytes 0 and 2 as int16; bytes 1 and 3 */
static inline int32_t tc_sxtb16(int32_t x)
{
    return tc_halves((int8_t)(uint8_t)(x >> 16), (int8_t)(uint8_t)x);
}
static inline int32_t tc_sxtb16_ror8(int32_t x)
{
    return tc_halves((int8_t)(uint8_t)(x >> 24), (int8_t)(uint8_t)(x >> 8));
}

static inline int32_t tc_ssat8(int32_t x)
{
    return tc_clamp(x, -128, 127);
}

/* [lo of y : lo of x]; [hi of x : hi of y] */
static inline int32_t tc_pkhbt(int32_t x, int32_t y)
{
    return tc_halves(tc_lo16(y), x);
}
static inline int32_t tc_pkhtb(int32_t x, int32_t y)
{
    return tc_halves(tc_hi16(x), tc_hi16(y));
}

static inline int32_t tc_load4(const int8_t *p)
{
    return (int32_t)((uint32_t)(uint8_t)p[0] | (uint32_t)(uint8_t)p[1] << 8 | (uint32_t)(uint8_t)p[2] << 16 |
                     (uint32_t)(uint8_t)p[3] << 24);
}

#endif

/* a - b modulo 2^32 */
static inline int32_t tc_dsp_difference(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* The n < 4 int8 at p as a word, 0 beyond. */
static inline int32_t tc_load_tail(const int8_t *p, int32_t n)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < n; i++) {
        word |= (uint32_t)(uint8_t)p[i] << (8 * i);
    }
    return (int32_t)word;
}

/* ---- unpacking ---- */

/* n int8 of two pixels a and b -> for each four taps the words a(0,2) b(0,2) a(1,3) b(1,3). Returns the end
 * of xs. */
static inline int32_t *tc_dsp_unpack_2(const int8_t *a, const int8_t *b, int32_t n, int32_t *xs)
{
    for (; n >= 4; n -= 4, a += 4, b += 4, xs += 4) {
        const int32_t va = tc_load4(a), vb = tc_load4(b);
        xs[0] = tc_sxtb16(va);
        xs[1] = tc_sxtb16(vb);
        xs[2] = tc_sxtb16_ror8(va);
        xs[3] = tc_sxtb16_ror8(vb);
    }
    if (n > 0) {
        const int32_t va = tc_load_tail(a, n), vb = tc_load_tail(b, n);
        xs[0] = tc_sxtb16(va);
        xs[1] = tc_sxtb16(vb);
        xs[2] = tc_sxtb16_ror8(va);
        xs[3] = tc_sxtb16_ror8(vb);
        xs += 4;
    }
    return xs;
}

/* n int8 -> for each four taps the words (0,2) (1,3). */
static inline void tc_dsp_unpack_1(const int8_t *x, int32_t n, int32_t *xs)
{
    for (; n >= 4; n -= 4, x += 4, xs += 2) {
        const int32_t v = tc_load4(x);
        xs[0] = tc_sxtb16(v);
        xs[1] = tc_sxtb16_ror8(v);
    }
    if (n > 0) {
        const int32_t v = tc_load_tail(x, n);
        xs[0] = tc_sxtb16(v);
        xs[1] = tc_sxtb16_ror8(v);
    }
}

/* ---- from accumulators to int8 ---- */

/* The output side of a weighted layer.
 *
 * finish says how an accumulator becomes y; all ways are exact, the compiler proves that the layer may take
 * one:
 *   0  any layer: tc_requantize(acc, mult, shift, rounds) + y_zero, clamped to [y_min, y_max]
 *   1  single rounding:  (SMMLA(2 acc, mult, c) >> shift), saturated to int8
 *   2  double rounding where nothing below y_zero can be seen (fused ReLU): the same with SMMLAR
 *   3  double rounding:  the same with SMMLAR and 1 subtracted for acc < 0
 * In 1 to 3, shift is a right shift in [1, 22], c = 2^(shift-1) + y_zero * 2^shift, |acc| < 2^30; `clamp`
 * tells whether [y_min, y_max] is less than int8.
 */
typedef struct {
    const int32_t *bias;  /* [out_c] */
    const int32_t *scale; /* [out_c][3]: mult, c, shift */
    int32_t out_c, finish, rounds, y_zero, y_min, y_max, clamp;
} tc_dsp_out_t;

/* Output of a channel before the clamp. scale: its three. finish: of p; a literal folds the choice away. */
static inline int32_t tc_dsp_scale(const tc_dsp_out_t *p, const int32_t *scale, int32_t acc, int32_t finish)
{
    const int32_t mult = scale[0], c = scale[1], shift = scale[2];
    if (finish == 0) {
        return tc_ssat8(tc_requantize(acc, mult, shift, p->rounds) + p->y_zero);
    }
    const int32_t t = finish == 1 ? tc_smmla(acc * 2, mult, c) : tc_smmlar(acc * 2, mult, c);
    return tc_ssat8((finish == 3 ? t + (acc >> 31) : t) >> shift);
}

/* Output of channel o. */
static inline int8_t tc_dsp_output(const tc_dsp_out_t *p, int32_t o, int32_t acc)
{
    const int32_t v = tc_dsp_scale(p, p->scale + 3 * o, acc, p->finish);
    return (int8_t)(p->clamp ? tc_clamp(v, p->y_min, p->y_max) : v);
}

/* y[o] = tc_dsp_output(first + o, acc[o]) for o < n: the choice of the way is made once. scale: of channel
 * first. */
static inline void tc_dsp_outputs(const tc_dsp_out_t *p, const int32_t *scale, const int32_t *acc, int32_t n,
                                  int8_t *y)
{
    switch (p->finish) {
    case 1: for (int32_t o = 0; o < n; o++) y[o] = (int8_t)tc_dsp_scale(p, scale + 3 * o, acc[o], 1); break;
    case 2: for (int32_t o = 0; o < n; o++) y[o] = (int8_t)tc_dsp_scale(p, scale + 3 * o, acc[o], 2); break;
    case 3: for (int32_t o = 0; o < n; o++) y[o] = (int8_t)tc_dsp_scale(p, scale + 3 * o, acc[o], 3); break;
    default: for (int32_t o = 0; o < n; o++) y[o] = (int8_t)tc_dsp_scale(p, scale + 3 * o, acc[o], 0); break;
    }
    for (int32_t o = 0; p->clamp && o < n; o++) {
        y[o] = (int8_t)tc_clamp(y[o], p->y_min, p->y_max);
    }
}

/* ---- a matrix of packed weights times two pixels ---- */

typedef struct tc_dsp_matrix_s tc_dsp_matrix_t;

/* Four output channels at a time (the last out_c % 4 are not done): y0 and y1 are those of two pixels whose
 * taps tc_dsp_unpack_2 has put in xs. Where y1 is y0, the first pixel stays. */
typedef void tc_dsp_blocks_t(const tc_dsp_matrix_t *p, const int32_t *xs, int8_t *y0, int8_t *y1);

/* w: for every four channels A B C D, `units` times the words AB(0,2) CD(0,2) AB(1,3) CD(1,3), packed A over
 * B; then for each remaining channel `units` words of plain int8. units >= 1.
 * blocks: tc_dsp_blocks_<finish>. With 1 to 3, |sum of x * w| < 2^23 for every channel; tc_dsp_blocks_0 adds
 * up dot products of `chunk` units for which that holds. */
struct tc_dsp_matrix_s {
    tc_dsp_out_t out;
    const int32_t *w;
    int32_t units, chunk;
    tc_dsp_blocks_t *blocks;
};

/* Any finish, in chunks, without assembly. */
static TC_UNUSED void tc_dsp_blocks_0(const tc_dsp_matrix_t *p, const int32_t *xs, int8_t *y0, int8_t *y1)
{
    const int32_t *w = p->w;

    for (int32_t o = 0; o + 4 <= p->out.out_c; o += 4, w += 4 * p->units) {
        for (int32_t pair = 0; pair < 2; pair++) {
            const int32_t a = o + 2 * pair, b = a + 1;
            for (int32_t pixel = 1; pixel >= 0; pixel--) {
                int8_t *y = pixel == 0 ? y0 : y1;
                int32_t acc_a = p->out.bias[a], acc_b = p->out.bias[b];
                for (int32_t first = 0; first < p->units; first += p->chunk) {
                    const int32_t end = first + p->chunk < p->units ? first + p->chunk : p->units;
                    const int32_t start = acc_b;
                    int32_t both = start;
                    for (int32_t i = 2 * first; i < 2 * end; i++) {
                        both = tc_smlad(xs[2 * i + pixel], w[2 * i + pair], both);
                        acc_b = tc_smlad(xs[2 * i + pixel], tc_sxtb16(w[2 * i + pair]), acc_b);
                    }
                    acc_a += tc_dsp_difference(both, acc_b) >> 8;
                }
                y[a] = (int8_t)tc_dsp_scale(&p->out, p->out.scale + 3 * a, acc_a, p->out.finish);
                y[b] = (int8_t)tc_dsp_scale(&p->out, p->out.scale + 3 * b, acc_b, p->out.finish);
            }
        }
    }
}

#if TC_DSP_ASM

/* In: r4 to r11 twice the accumulators, channel by channel, pixel 0 before 1; r0 scale, r1 y1, lr y0.
 * TC_DSP_T: t and the shift (in r12) of one channel. */
#define TC_DSP_T_1(p0, p1)                                                         \
    "ldmia  r0!, {r2, r3, r12}   \n"                                               \
    "smmla  " p0 ", " p0 ", r2, r3 \n"                                             \
    "smmla  " p1 ", " p1 ", r2, r3 \n"
#define TC_DSP_T_2(p0, p1)                                                         \
    "ldmia  r0!, {r2, r3, r12}   \n"                                               \
    "smmlar " p0 ", " p0 ", r2, r3 \n"                                             \
    "smmlar " p1 ", " p1 ", r2, r3 \n"
#define TC_DSP_T_3(p0, p1)                                                         \
    "ldmia  r0!, {r2, r3}        \n"                                               \
    "add    r12, r3, " p0 ", asr #31 \n" /* 1 less for a negative accumulator */   \
    "add    r3, r3, " p1 ", asr #31 \n"                                            \
    "smmlar " p0 ", " p0 ", r2, r12 \n"                                            \
    "smmlar " p1 ", " p1 ", r2, r3 \n"                                             \
    "ldr    r12, [r0], #4        \n"
#define TC_DSP_CHANNEL(finish, p0, p1)                                             \
    TC_DSP_T_##finish(p0, p1)                                                      \
    "asr    " p0 ", " p0 ", r12  \n"                                               \
    "asr    " p1 ", " p1 ", r12  \n"                                               \
    "ssat   " p0 ", #8, " p0 "   \n"                                               \
    "ssat   " p1 ", #8, " p1 "   \n"                                               \
    "strb   " p1 ", [r1], #1     \n"                                               \
    "strb   " p0 ", [lr], #1     \n" /* last: y1 may be y0 */

/* Two taps of two pixels by four channels: T of A in r4 r5, of C in r8 r9; B in r6 r7, D in r10 r11. 48
 * bytes. */
#define TC_DSP_TAPS                                                                \
    "ldrd   r2, r3, [r0], #8     \n"                                               \
    "ldrd   r12, lr, [r1], #8    \n"                                               \
    "smlad  r4, r2, r12, r4      \n"                                               \
    "smlad  r5, r3, r12, r5      \n"                                               \
    "smlad  r8, r2, lr, r8       \n"                                               \
    "smlad  r9, r3, lr, r9       \n"                                               \
    "sxtb16 r12, r12             \n"                                               \
    "sxtb16 lr, lr               \n"                                               \
    "smlad  r6, r2, r12, r6      \n"                                               \
    "smlad  r7, r3, r12, r7      \n"                                               \
    "smlad  r10, r2, lr, r10     \n"                                               \
    "smlad  r11, r3, lr, r11     \n"

typedef char tc_dsp_blocks_reads[
    __builtin_offsetof(tc_dsp_matrix_t, out.bias) == 0 &&
        __builtin_offsetof(tc_dsp_matrix_t, out.scale) == 4 &&
    __builtin_offsetof(tc_dsp_matrix_t, out.out_c) == 8 && __builtin_offsetof(tc_dsp_matrix_t, w) == 36 &&
    __builtin_offsetof(tc_dsp_matrix_t, units) == 40 ? 1 : -1];

/* Inner loop: 24 instructions for 32 MAC, four units per turn; the first turn starts in its middle when units
 * is not a multiple of four. Frame: [0] x [4] end of x [8] bias [12] scale [16] y0 [20] y1 [24] blocks to do
 * [28] first unit [32] w */
#define TC_DSP_BLOCKS(finish)                                                      \
    static TC_NAKED void tc_dsp_blocks_##finish(const tc_dsp_matrix_t *p TC_UNUSED,                          \
                                                const int32_t *xs TC_UNUSED, int8_t *y0 TC_UNUSED,           \
                                                int8_t *y1 TC_UNUSED)                                        \
    {                                                                              \
        __asm__ volatile(                                                          \
            ".syntax unified             \n"                                       \
            "push   {r4-r11, lr}         \n"                                       \
            "sub    sp, sp, #36          \n"                                       \
            "ldr    r4, [r0, #8]         \n"                                       \
            "lsrs   r4, r4, #2           \n"                                       \
            "beq.w  3f                   \n"                                       \
            "ldrd   r5, r6, [r0, #36]    \n" /* w, units */                        \
            "ldrd   r8, r9, [r0]         \n" /* bias, scale */                     \
            "strd   r2, r3, [sp, #16]    \n"                                       \
            "strd   r8, r9, [sp, #8]     \n"                                       \
            "add    r7, r1, r6, lsl #4   \n"                                       \
            "strd   r1, r7, [sp]         \n"                                       \
            "rsb    r6, r6, #0           \n"                                       \
            "and    r6, r6, #3           \n"                                       \
            "add    r6, r6, r6, lsl #1   \n"                                       \
            "adr    r7, 2f               \n"                                       \
            "add    r7, r7, r6, lsl #5   \n" /* units to skip, 96 bytes each */    \
            "orr    r7, r7, #1           \n"                                       \
            "strd   r4, r7, [sp, #24]    \n"                                       \
            "mov    r1, r5               \n"                                       \
            "1:                          \n" /* four channels */                   \
            "ldrd   r0, r2, [sp, #4]     \n" /* r2: bias */                        \
            "ldr    r0, [sp]             \n"                                       \
            "ldr    r12, [sp, #28]       \n"                                       \
            "ldr    r6, [r2, #4]         \n"                                       \
            "ldr    r10, [r2, #12]       \n"                                       \
            "mov    r4, r6               \n"                                       \
            "mov    r5, r6               \n"                                       \
            "mov    r7, r6               \n"                                       \
            "mov    r8, r10              \n"                                       \
            "mov    r9, r10              \n"                                       \
            "mov    r11, r10             \n"                                       \
            "bx     r12                  \n"                                       \
            ".balign 4                   \n"                                       \
            "2:                          \n"                                       \
            ".rept 8                     \n" /* four units */                      \
            TC_DSP_TAPS                                                            \
            ".endr                       \n"                                       \
            "ldr    r2, [sp, #4]         \n"                                       \
            "cmp    r0, r2               \n"                                       \
            "bne.w  2b                   \n"                                       \
            "ldrd   r2, r0, [sp, #8]     \n" /* bias, scale */                     \
            "str    r1, [sp, #32]        \n"                                       \
            "ldr    r12, [r2]            \n"                                       \
            "ldr    r3, [r2, #8]         \n"                                       \
            "add    r2, r2, #16          \n"                                       \
            "str    r2, [sp, #8]         \n"                                       \
            "lsl    r12, r12, #1         \n"                                       \
            "lsl    r3, r3, #1           \n"                                       \
            "sub    r4, r4, r6           \n"                                       \
            "sub    r5, r5, r7           \n"                                       \
            "sub    r8, r8, r10          \n"                                       \
            "sub    r9, r9, r11          \n"                                       \
            "add    r4, r12, r4, asr #7  \n" /* twice the sum of A */              \
            "add    r5, r12, r5, asr #7  \n"                                       \
            "add    r8, r3, r8, asr #7   \n"                                       \
            "add    r9, r3, r9, asr #7   \n"                                       \
            "lsl    r6, r6, #1           \n"                                       \
            "lsl    r7, r7, #1           \n"                                       \
            "lsl    r10, r10, #1         \n"                                       \
            "lsl    r11, r11, #1         \n"                                       \
            "ldrd   lr, r1, [sp, #16]    \n"                                       \
            TC_DSP_CHANNEL(finish, "r4", "r5") TC_DSP_CHANNEL(finish, "r6", "r7")  \
            TC_DSP_CHANNEL(finish, "r8", "r9") TC_DSP_CHANNEL(finish, "r10", "r11") \
            "ldr    r4, [sp, #24]        \n"                                       \
            "strd   lr, r1, [sp, #16]    \n"                                       \
            "str    r0, [sp, #12]        \n"                                       \
            "ldr    r1, [sp, #32]        \n"                                       \
            "subs   r4, r4, #1           \n"                                       \
            "str    r4, [sp, #24]        \n"                                       \
            "bne.w  1b                   \n"                                       \
            "3:                          \n"                                       \
            "add    sp, sp, #36          \n"                                       \
            "pop    {r4-r11, pc}         \n");                                     \
    }

TC_DSP_BLOCKS(1)
TC_DSP_BLOCKS(2)
TC_DSP_BLOCKS(3)
#undef TC_DSP_BLOCKS
#undef TC_DSP_TAPS
#undef TC_DSP_CHANNEL
#undef TC_DSP_T_1
#undef TC_DSP_T_2
#undef TC_DSP_T_3

#else

#define tc_dsp_blocks_1 tc_dsp_blocks_0
#define tc_dsp_blocks_2 tc_dsp_blocks_0
#define tc_dsp_blocks_3 tc_dsp_blocks_0

#endif

/* All output channels of `pixels` (1 or 2) pixels whose taps tc_dsp_unpack_2 has put in xs; y
 * [pixels][out_c]. */
static TC_UNUSED void tc_dsp_pixels(const tc_dsp_matrix_t *p, const int32_t *xs, int32_t pixels, int8_t *y)
{
    const int32_t out_c = p->out.out_c, blocked = out_c / 4 * 4;
    const int32_t *w = p->w + blocked * p->units;
    int8_t *y1 = y + (pixels - 1) * out_c;

    p->blocks(p, xs, y, y1);
    for (int32_t o = blocked; o < out_c; o++, w += p->units) {
        int32_t a = p->out.bias[o], b = a;
        for (int32_t i = 0; i < p->units; i++) {
            const int32_t even = tc_sxtb16(w[i]), odd = tc_sxtb16_ror8(w[i]);
            a = tc_smlad(xs[4 * i], even, tc_smlad(xs[4 * i + 2], odd, a));
            b = tc_smlad(xs[4 * i + 1], even, tc_smlad(xs[4 * i + 3], odd, b));
        }
        y1[o] = (int8_t)tc_dsp_scale(&p->out, p->out.scale + 3 * o, b, p->out.finish);
        y[o] = (int8_t)tc_dsp_scale(&p->out, p->out.scale + 3 * o, a, p->out.finish);
    }
    for (int32_t i = 0; p->out.clamp && i < pixels * out_c; i++) {
        y[i] = (int8_t)tc_clamp(y[i], p->out.y_min, p->out.y_max);
    }
}

/* ---- one pixel by eight output channels ----
 *
 *
 *   acc[o] = bias[o] + sum over 4 * units taps of x * w of channel o,   o < 8
 *
 * x: as tc_dsp_unpack_1 makes it. w: per unit the words AB CD EF GH (0,2), then AB CD EF GH (1,3). units >=
 * 1. bias may be acc. Inner loop: 29 instructions for 32 MAC, two units per turn.
 * tc_dsp_dot_bytes_1x8: x is int8 at any address, unpacked on the way; 31 instructions.
 */
#if TC_DSP_ASM

#define TC_DOT_1X8_STEP(x)                                                         \
    "ldrd   r12, lr, [r1], #8    \n"                                               \
    "smlad  r4, " x ", r12, r4   \n"                                               \
    "smlad  r6, " x ", lr, r6    \n"                                               \
    "sxtb16 r12, r12             \n"                                               \
    "sxtb16 lr, lr               \n"                                               \
    "smlad  r5, " x ", r12, r5   \n"                                               \
    "smlad  r7, " x ", lr, r7    \n"                                               \
    "ldrd   r12, lr, [r1], #8    \n"                                               \
    "smlad  r8, " x ", r12, r8   \n"                                               \
    "smlad  r10, " x ", lr, r10  \n"                                               \
    "sxtb16 r12, r12             \n"                                               \
    "sxtb16 lr, lr               \n"                                               \
    "smlad  r9, " x ", r12, r9   \n"                                               \
    "smlad  r11, " x ", lr, r11  \n"

#define TC_DOT_1X8_PAIRS "ldrd r2, r3, [r0], #8 \n" TC_DOT_1X8_STEP("r2") TC_DOT_1X8_STEP("r3")
#define TC_DOT_1X8_BYTES                                                           \
    "ldr    r3, [r0], #4          \n"                                              \
    "sxtb16 r2, r3                \n" TC_DOT_1X8_STEP("r2")                        \
    "sxtb16 r2, r3, ror #8        \n" TC_DOT_1X8_STEP("r2")

/* shift: of the bytes of a unit in x. unit: text of the sums over one. */
#define TC_DOT_1X8(name, type, shift, unit)                                        \
    static TC_NAKED void name(const type *x TC_UNUSED, const int32_t *w TC_UNUSED, \
                              int32_t units TC_UNUSED, const int32_t *bias TC_UNUSED, \
                              int32_t *acc TC_UNUSED)                              \
    {                                                                              \
        __asm__ volatile(                                                          \
            ".syntax unified              \n"                                      \
            "push   {r3-r11, lr}          \n"                                      \
            "add    r12, r0, r2, lsl #" #shift " \n" /* end of x */                \
            "push   {r0, r12}             \n" /* +4 end of x, +8 bias, +48 acc */ \
            "ldr    r5, [r3, #4]          \n"                                      \
            "ldr    r7, [r3, #12]         \n"                                      \
            "ldr    r9, [r3, #20]         \n"                                      \
            "ldr    r11, [r3, #28]        \n"                                      \
            "mov    r4, r5                \n"                                      \
            "mov    r6, r7                \n"                                      \
            "mov    r8, r9                \n"                                      \
            "mov    r10, r11              \n"                                      \
            "lsls   r2, r2, #31           \n"                                      \
            "bne.w  2f                    \n" /* odd: from the second unit of a turn on */ \
            ".balign 4                    \n"                                      \
            "1:                           \n"                                      \
            unit                                                                   \
            "2:                           \n"                                      \
            unit                                                                   \
            "ldr    r2, [sp, #4]          \n"                                      \
            "cmp    r0, r2                \n"                                      \
            "bne.w  1b                    \n"                                      \
            "ldr    r2, [sp, #8]          \n"                                      \
            "sub    r4, r4, r5            \n"                                      \
            "sub    r6, r6, r7            \n"                                      \
            "sub    r8, r8, r9            \n"                                      \
            "sub    r10, r10, r11         \n"                                      \
            "ldr    r0, [r2]              \n"                                      \
            "ldr    r1, [r2, #8]          \n"                                      \
            "ldr    r3, [r2, #16]         \n"                                      \
            "ldr    r12, [r2, #24]        \n"                                      \
            "add    r4, r0, r4, asr #8    \n"                                      \
            "add    r6, r1, r6, asr #8    \n"                                      \
            "add    r8, r3, r8, asr #8    \n"                                      \
            "add    r10, r12, r10, asr #8 \n"                                      \
            "ldr    r2, [sp, #48]         \n"                                      \
            "stm    r2, {r4-r11}          \n"                                      \
            "add    sp, sp, #12           \n"                                      \
            "pop    {r4-r11, pc}          \n");                                    \
    }

TC_DOT_1X8(tc_dsp_dot_1x8, int32_t, 3, TC_DOT_1X8_PAIRS)
TC_DOT_1X8(tc_dsp_dot_bytes_1x8, int8_t, 2, TC_DOT_1X8_BYTES)
#undef TC_DOT_1X8
#undef TC_DOT_1X8_BYTES
#undef TC_DOT_1X8_PAIRS
#undef TC_DOT_1X8_STEP

#else

static inline void tc_dsp_dot_1x8(const int32_t *x, const int32_t *w, int32_t units, const int32_t *bias,
                                  int32_t *acc)
{
    for (int32_t pair = 0; pair < 4; pair++) {
        int32_t b = bias[2 * pair + 1], t = b;
        for (int32_t i = 0; i < 2 * units; i++) {
            t = tc_smlad(x[i], w[4 * i + pair], t);
            b = tc_smlad(x[i], tc_sxtb16(w[4 * i + pair]), b);
        }
        acc[2 * pair] = bias[2 * pair] + (tc_dsp_difference(t, b) >> 8);
        acc[2 * pair + 1] = b;
    }
}

static inline void tc_dsp_dot_bytes_1x8(const int8_t *x, const int32_t *w, int32_t units, const int32_t *bias,
                                        int32_t *acc)
{
    for (int32_t pair = 0; pair < 4; pair++) {
        int32_t b = bias[2 * pair + 1], t = b;
        for (int32_t i = 0; i < 2 * units; i++) {
            const int32_t word = tc_load4(x + 4 * (i / 2));
            const int32_t taps = i % 2 ? tc_sxtb16_ror8(word) : tc_sxtb16(word);
            t = tc_smlad(taps, w[4 * i + pair], t);
            b = tc_smlad(taps, tc_sxtb16(w[4 * i + pair]), b);
        }
        acc[2 * pair] = bias[2 * pair] + (tc_dsp_difference(t, b) >> 8);
        acc[2 * pair + 1] = b;
    }
}

#endif

#if !TC_DSP_ASM

/* From the accumulator X of a channel to its output: y = saturate8((high word of X * mult + add) >> shift),
 * between y_min and y_max. Bias, zero points and rounding are in X and add. */
typedef struct {
    int32_t sign;     /* the high word is rounded, and 1 is subtracted for X < 0 */
    int32_t drops;    /* instead, each channel has behind mult and add what comes off add for X < 0 */
    int32_t varies;   /* each channel has its shift there; else it is shift[channel % 4] */
    int32_t shift[4];
    int32_t y_min, y_max;
    int32_t based; /* 1: channels add the base, and have mult alone; 2: those at even positions */
    int32_t base;
} tc_finish_t;

static inline int32_t tc_finish_based(const tc_finish_t *p, int32_t channel)
{
    return p->based == 1 || (p->based == 2 && channel % 2 == 0);
}

/* Constants of a channel: mult[, add[, drop or shift]]. */
static inline int32_t tc_finish_words(const tc_finish_t *p, int32_t channel)
{
    return tc_finish_based(p, channel) ? 1 : p->varies || p->drops ? 3 : 2;
}

/* raised: X comes times 2^raised, and add and drop do. */
static inline int8_t tc_finish(const tc_finish_t *p, int32_t x, int32_t channel, int32_t raised,
                               const int32_t *constants)
{
    const int32_t add = tc_finish_based(p, channel) ? p->base
                        : p->drops && x < 0         ? tc_wrap((int64_t)constants[1] - constants[2])
                                                    : constants[1];
    const int32_t high = p->sign && !p->drops ? tc_smmlar(x, constants[0], add) - (x < 0)
                                              : tc_smmla(x, constants[0], add);
    const int32_t shift = (p->varies ? constants[2] : p->shift[channel % 4]) + raised;
    return (int8_t)tc_clamp(tc_ssat8(high >> shift), p->y_min, p->y_max);
}

#endif

#endif
