/* SPDX-License-Identifier: 0BSD */
/* int16 activations on cores with DSP: sums of products of int16, and the way from int32 accumulators to
 * int16.
 *
 * Output channels go by fours. The stream holds for each four, one after the other:
 *   4 words   biases
 *   weights   widened to int16, as the function below says
 *   12 words  mult, add, shift of each channel
 * Channels beyond the last have zero weights. Sums wrap modulo 2^32: only the accumulator in the end has to
 * fit int32, which the compiler proves.
 *
 * y = clamp(scaled + y_zero, y_min, y_max), where scaled is, by `rounds`,
 *   0: (acc * mult >> 32) + add >> shift, which rounds halves up (add is 2^(shift - 1), shift in [1, 31]);
 *   1, 2, 4: tc_scale_wide with mult and shift.
 * finish: 0, or where rounds and y_zero are 0: 1 if the clamp is int16 itself, 2 if it is int16 from 0 on,
 * else 3.
 */
#ifndef TC_S16_H
#define TC_S16_H

#include "tc_dsp.h"
#include "tc_wide.h"

typedef struct {
    int32_t out_c, finish, rounds, y_zero, y_min, y_max;
} tc_s16_out_t;

static inline int16_t tc_s16_output(const tc_s16_out_t *out, const int32_t *scale, int32_t acc)
{
    const int32_t v = out->rounds == 0 ? tc_smmla(acc, scale[0], scale[1]) >> scale[2]
                                       : tc_scale_wide(acc, scale[0], scale[2], out->rounds);

    return (int16_t)tc_clamp(v + out->y_zero, out->y_min, out->y_max);
}

/* Two int16 in memory order, any address. */
static inline int32_t tc_load2(const int16_t *p)
{
    return (int32_t)tc_load_word(p);
}

/* A number in both halves of a word. */
static inline int32_t tc_s16_both(int32_t v)
{
    return (int32_t)((uint32_t)v << 16 | ((uint32_t)v & 0xffff));
}

/* Channels [first, out_c) of `pixels` pixels, 1 or 2, the second out_c after the first. A step is two taps;
 * per step the stream has four words, one per channel, the first tap in the low half; x has a word per pixel.
 * halves: steps / 2. */
static void tc_s16_pixels(const tc_s16_out_t *out, const int32_t *x, const int32_t *stream, int32_t halves,
                          int32_t pixels, int32_t first, int16_t *y)
{
    for (int32_t o = first; o < out->out_c; o++) {
        const int32_t *w = stream + (o - first) / 4 * (16 + 8 * halves) + o % 4;
        const int32_t *scale = w - o % 4 + 4 + 8 * halves + o % 4 * 3;
        for (int32_t i = 0; i < pixels; i++) {
            int32_t acc = w[0];
            for (int32_t s = 0; s < 2 * halves; s++) {
                acc = tc_smlad(x[s * pixels + i], w[4 + 4 * s], acc);
            }
            y[i * out->out_c + o] = tc_s16_output(out, scale, acc);
        }
    }
}

/* Channels [first, out_c) of one pixel of a depthwise layer: tap t of channel o is taps[t][o]. Per tap the
 * stream has two words, of channels 0 and 1, 2 and 3, the first in the low half. */
static void tc_s16_depthwise(const tc_s16_out_t *out, const int16_t *const *taps, const int32_t *stream,
                             int32_t n, int32_t first, int16_t *y)
{
    for (int32_t o = first; o < out->out_c; o++) {
        const int32_t *at = stream + (o - first) / 4 * (16 + 2 * n), *w = at + 4 + o % 4 / 2;
        int32_t acc = at[o % 4];
        for (int32_t t = 0; t < n; t++) {
            const int32_t both = w[2 * t];
            acc = (o & 1) != 0 ? tc_smlabt(taps[t][o], both, acc) : tc_smlabb(taps[t][o], both, acc);
        }
        y[o] = tc_s16_output(out, at + 4 + 2 * n + o % 4 * 3, acc);
    }
}

#if TC_DSP_ASM

/* The same for full fours where rounds and y_zero are 0, saturated to int16, or to 0 .. 32767. */

#define TC_S16_STEP_2                                                              \
    "ldrd r10, r11, [r0], #8 \n ldrd r12, lr, [r1], #8 \n"                         \
    "smlad r2, r10, r12, r2 \n smlad r6, r11, r12, r6 \n"                          \
    "smlad r3, r10, lr, r3 \n smlad r7, r11, lr, r7 \n ldrd r12, lr, [r1], #8 \n"  \
    "smlad r4, r10, r12, r4 \n smlad r8, r11, r12, r8 \n"                          \
    "smlad r5, r10, lr, r5 \n smlad r9, r11, lr, r9 \n"
#define TC_S16_OUT_2(op, bits, a, b)                                               \
    "ldm r1!, {r10, r11, r12} \n smmla " a ", " a ", r10, r11 \n smmla " b ", " b ", r10, r11 \n" \
    "asr " a ", " a ", r12 \n asr " b ", " b ", r12 \n" op " " a ", " bits ", " a " \n"                      \
        op " " b ", " bits ", " b " \n"
#define TC_S16_PIXELS_2(name, op, bits)                                            \
    static TC_NAKED void name(const int32_t *x TC_UNUSED, const int32_t *stream TC_UNUSED,                   \
                              int16_t *y TC_UNUSED, int32_t halves TC_UNUSED, int32_t fours TC_UNUSED,       \
                              int32_t row_bytes TC_UNUSED)                                                   \
    {                                                                              \
        __asm__ volatile(".syntax unified \n push {r4-r11, lr} \n sub sp, sp, #20 \n" \
                         "add r12, r0, r3, lsl #4 \n strd r0, r12, [sp] \n ldr r12, [sp, #60] \n"            \
                         "add r12, r2, r12 \n"                                                               \
                         "strd r2, r12, [sp, #8] \n ldr r12, [sp, #56] \n str r12, [sp, #16] \n" \
                         "1: \n ldrd r0, r10, [sp] \n ldm r1!, {r2-r5} \n mov r6, r2 \n mov r7, r3 \n"       \
                         "mov r8, r4 \n"                                                                     \
                         "mov r9, r5 \n sub r10, r10, r0 \n tst r10, #16 \n beq 2f \n"                       \
                             TC_S16_STEP_2 TC_S16_STEP_2                                                     \
                         "ldr r10, [sp, #4] \n cmp r0, r10 \n beq 3f \n"           \
                         "2: \n" TC_S16_STEP_2 TC_S16_STEP_2 TC_S16_STEP_2 TC_S16_STEP_2 \
                         "ldr r10, [sp, #4] \n cmp r0, r10 \n bne 2b \n"           \
                         "3: \n" TC_S16_OUT_2(op, bits, "r2", "r6") TC_S16_OUT_2(op, bits, "r3", "r7") \
                         TC_S16_OUT_2(op, bits, "r4", "r8") TC_S16_OUT_2(op, bits, "r5", "r9") \
                         "pkhbt r2, r2, r3, lsl #16 \n pkhbt r4, r4, r5, lsl #16 \n"                         \
                         "pkhbt r6, r6, r7, lsl #16 \n"                                                      \
                         "pkhbt r8, r8, r9, lsl #16 \n ldrd r10, r11, [sp, #8] \n" \
                         "str r2, [r10], #4 \n str r4, [r10], #4 \n str r6, [r11], #4 \n"                    \
                         "str r8, [r11], #4 \n"                                                              \
                         "strd r10, r11, [sp, #8] \n ldr r10, [sp, #16] \n subs r10, r10, #1 \n"             \
                         "str r10, [sp, #16] \n"                                                             \
                         "bne 1b \n add sp, sp, #20 \n pop {r4-r11, pc} \n");      \
    }
TC_S16_PIXELS_2(tc_s16_pixels_2, "ssat", "#16")
TC_S16_PIXELS_2(tc_s16_pixels_2_relu, "usat", "#15")

#define TC_S16_OUT_1(op, bits, a)                                                  \
    "ldm r1!, {r8, r9, r10} \n smmla " a ", " a ", r8, r9 \n asr " a ", " a ", r10 \n"                       \
        op " " a ", " bits ", " a " \n"
#define TC_S16_OUTS_1(op, bits)                                                    \
    TC_S16_OUT_1(op, bits, "r4") TC_S16_OUT_1(op, bits, "r5") TC_S16_OUT_1(op, bits, "r6")                   \
        TC_S16_OUT_1(op, bits, "r7")                                                                         \
    "pkhbt r4, r4, r5, lsl #16 \n pkhbt r6, r6, r7, lsl #16 \n str r4, [r2], #4 \n str r6, [r2], #4 \n" \
    "ldr r12, [sp, #4] \n subs r12, r12, #1 \n str r12, [sp, #4] \n"
#define TC_S16_ENTER_1 /* fours to [sp, #4], the start of x to [sp] */             \
    ".syntax unified \n push {r4-r11, lr} \n sub sp, sp, #12 \n str r0, [sp] \n ldr r12, [sp, #48] \n"       \
    "str r12, [sp, #4] \n"

#define TC_S16_STEP_1(x)                                                           \
    "ldrd r8, r9, [r1], #8 \n ldrd r10, r11, [r1], #8 \n"                          \
    "smlad r4, " x ", r8, r4 \n smlad r5, " x ", r9, r5 \n smlad r6, " x ", r10, r6 \n smlad r7, " x         \
        ", r11, r7 \n"
#define TC_S16_HALF_1 "ldrd r12, lr, [r0], #8 \n" TC_S16_STEP_1("r12") TC_S16_STEP_1("lr")
#define TC_S16_PIXELS_1(name, op, bits)                                            \
    static TC_NAKED void name(const int32_t *x TC_UNUSED, const int32_t *stream TC_UNUSED,                   \
                              int16_t *y TC_UNUSED, int32_t halves TC_UNUSED, int32_t fours TC_UNUSED)       \
    {                                                                              \
        __asm__ volatile(TC_S16_ENTER_1 "add r3, r0, r3, lsl #3 \n"                \
                         "1: \n ldr r0, [sp] \n ldm r1!, {r4-r7} \n sub r12, r3, r0 \n tst r12, #8 \n"       \
                         "beq 2f \n"                                                                         \
                         TC_S16_HALF_1 "cmp r0, r3 \n beq 3f \n"                   \
                         "2: \n" TC_S16_HALF_1 TC_S16_HALF_1 "cmp r0, r3 \n bne 2b \n" \
                         "3: \n" TC_S16_OUTS_1(op, bits)                                                     \
                             "bne 1b \n add sp, sp, #12 \n pop {r4-r11, pc} \n");                            \
    }
TC_S16_PIXELS_1(tc_s16_pixels_1, "ssat", "#16")
TC_S16_PIXELS_1(tc_s16_pixels_1_relu, "usat", "#15")

#define TC_S16_TAP                                                                 \
    "ldr r12, [r0], #4 \n ldrd r10, r11, [r1], #8 \n add r12, r12, lr \n ldr r8, [r12] \n"                   \
    "ldr r9, [r12, #4] \n"                                                                                   \
    "smlabb r4, r8, r10, r4 \n smlatt r5, r8, r10, r5 \n smlabb r6, r9, r11, r6 \n smlatt r7, r9, r11, r7 \n"
#define TC_S16_DEPTHWISE(name, op, bits)                                           \
    static TC_NAKED void name(const int16_t *const *taps TC_UNUSED, const int32_t *stream TC_UNUSED, \
                              int16_t *y TC_UNUSED, int32_t n TC_UNUSED, int32_t fours TC_UNUSED) \
    {                                                                              \
        __asm__ volatile(TC_S16_ENTER_1 "add r3, r0, r3, lsl #2 \n mov lr, #0 \n"  \
                         "1: \n ldr r0, [sp] \n ldm r1!, {r4-r7} \n sub r12, r3, r0 \n tst r12, #4 \n"       \
                         "beq 2f \n"                                                                         \
                         TC_S16_TAP "cmp r0, r3 \n beq 3f \n"                      \
                         "2: \n" TC_S16_TAP TC_S16_TAP "cmp r0, r3 \n bne 2b \n"   \
                         "3: \n add lr, lr, #8 \n" TC_S16_OUTS_1(op, bits)         \
                         "bne 1b \n add sp, sp, #12 \n pop {r4-r11, pc} \n");      \
    }
TC_S16_DEPTHWISE(tc_s16_depthwise_1, "ssat", "#16")
TC_S16_DEPTHWISE(tc_s16_depthwise_1_relu, "usat", "#15")

/* The clamp of finish 3, of the first n outputs. */
static inline void tc_s16_clamp(const tc_s16_out_t *out, int32_t n, int16_t *y)
{
    for (int32_t i = 0; out->finish == 3 && i < n; i++) {
        y[i] = (int16_t)tc_clamp(y[i], out->y_min, out->y_max);
    }
}

#endif

/* All channels of one or two pixels. */
static TC_UNUSED void tc_s16_all(const tc_s16_out_t *out, const int32_t *x, const int32_t *stream,
                                 int32_t halves, int32_t pixels, int16_t *y)
{
    int32_t first = 0;
#if TC_DSP_ASM
    const int32_t fours = out->out_c / 4;
    if (out->finish != 0 && fours > 0) {
        if (pixels == 2) {
            (out->finish == 2 ? tc_s16_pixels_2_relu : tc_s16_pixels_2)(x, stream, y, halves, fours,
                                                                     2 * out->out_c);
        } else {
            (out->finish == 2 ? tc_s16_pixels_1_relu : tc_s16_pixels_1)(x, stream, y, halves, fours);
        }
        first = 4 * fours;
        stream += fours * (16 + 8 * halves);
        for (int32_t i = 0; i < pixels; i++) {
            tc_s16_clamp(out, first, y + i * out->out_c);
        }
    }
#endif
    tc_s16_pixels(out, x, stream, halves, pixels, first, y);
}

/* All channels of one pixel of a depthwise layer. */
static TC_UNUSED void tc_s16_all_depthwise(const tc_s16_out_t *out, const int16_t *const *taps,
                                           const int32_t *stream, int32_t n, int16_t *y)
{
    int32_t first = 0;
#if TC_DSP_ASM
    const int32_t fours = out->out_c / 4;
    if (out->finish != 0 && fours > 0) {
        (out->finish == 2 ? tc_s16_depthwise_1_relu : tc_s16_depthwise_1)(taps, stream, y, n, fours);
        first = 4 * fours;
        stream += fours * (16 + 2 * n);
        tc_s16_clamp(out, first, y);
    }
#endif
    tc_s16_depthwise(out, taps, stream, n, first, y);
}

#endif
