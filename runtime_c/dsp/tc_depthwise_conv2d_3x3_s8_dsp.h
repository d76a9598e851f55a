/* SPDX-License-Identifier: 0BSD */
/* One row of a 3x3 depthwise convolution, stride 1 or 2, no dilation, as many outputs as inputs, int8. Same
 * bytes as tc_depthwise_conv2d_s8.
 *
 * x: 3 pointers to input rows s8 [in_w][in_c]; a row outside the image points to zero points.
 * pad: at least 4 bytes of x_zero. y [out_w][in_c], may not overlap x. out_w >= 2.
 * w: for each channel three words, one per kernel row, of the bytes w0 w1 w1 w2.
 * out: as tc_dsp.h says, with finish 1 to 3.
 * run: tc_dsp_dw3x3_<stride>_<finish>.
 *
 * Four channels at a time: their three rows are unpacked into int16, two columns to a word, padding included;
 * then two outputs of one channel are computed at a time. scratch: 48 bytes for each pair of columns, aligned
 * to 4; there are pairs = 1 + stride * (out_w / 2 rounded up) of them, from column -pad_left on.
 */
#ifndef TC_DEPTHWISE_CONV2D_3X3_S8_DSP_H
#define TC_DEPTHWISE_CONV2D_3X3_S8_DSP_H

#include "tc_dsp.h"

/* What two outputs of one step need beside the columns. */
typedef struct {
    const int32_t *w;     /* three words for each channel */
    const int32_t *bias;  /* as in tc_dsp_out_t, from the first of the channels on */
    const int32_t *scale;
    int32_t channels;     /* 1 to 4 */
    int32_t y_step;       /* from one output to the next: in_c */
    int32_t out_w;
} tc_dsp_dw3x3_t;

typedef void tc_dsp_dw3x3_run(const int32_t *columns, const tc_dsp_dw3x3_t *p, int8_t *y);

typedef struct {
    tc_dsp_out_t out;
    const int32_t *w;
    const int8_t *pad;
    tc_dsp_dw3x3_run *run;
    int32_t in_w, in_c, out_w, pad_left, pairs;
} tc_depthwise_conv2d_3x3_s8_dsp_t;

/* The row of out_w outputs of each channel, from columns [pair][channel][row] of two int16 each. */
#if TC_DSP_ASM

/* In: r11, r12 twice the accumulators of the two outputs. TC_DW_T: t of each, with the rounding constant. */
#define TC_DW_T_1 "smmla r11, r11, r2, r3 \n" "smmla r12, r12, r2, r3 \n"
#define TC_DW_T_2 "smmlar r11, r11, r2, r3 \n" "smmlar r12, r12, r2, r3 \n"
#define TC_DW_T_3                                                                  \
    "add    r10, r3, r11, asr #31 \n" /* 1 less for a negative accumulator */      \
    "add    r3, r3, r12, asr #31  \n"                                              \
    "smmlar r11, r11, r2, r10     \n"                                              \
    "smmlar r12, r12, r2, r3      \n"

/* Weights r4 (0,1) r5 (1,2) of row 0, r6 r7 of row 1, r8 r9 of row 2. Columns (0,1) at r0, (2,3) at r0+48,
 * (4,5) at +96; rows at +0, +4, +8. Output 0 is x0 w0 + x1 w1 + x2 w2; output 1 starts at column 1 or 2, the
 * stride. */
#define TC_DW_MAC_1                                                                \
    "ldrd   r2, r3, [r0, #48]    \n"                                               \
    "smlabt r11, r2, r5, r10     \n"                                               \
    "smlad  r12, r2, r5, r10     \n"                                               \
    "smlabt r11, r3, r7, r11     \n"                                               \
    "smlad  r12, r3, r7, r12     \n"                                               \
    "ldr    r2, [r0, #56]        \n"                                               \
    "ldr    r3, [r0, #8]         \n"                                               \
    "smlabt r11, r2, r9, r11     \n"                                               \
    "smlad  r12, r2, r9, r12     \n"                                               \
    "smlad  r11, r3, r8, r11     \n"                                               \
    "smlatb r12, r3, r8, r12     \n"                                               \
    "ldrd   r2, r3, [r0], #48    \n"                                               \
    "smlad  r11, r2, r4, r11     \n"                                               \
    "smlatb r12, r2, r4, r12     \n"                                               \
    "smlad  r11, r3, r6, r11     \n"                                               \
    "smlatb r12, r3, r6, r12     \n"
#define TC_DW_MAC_2                                                                \
    "ldrd   r2, r3, [r0, #48]    \n"                                               \
    "smlabt r11, r2, r5, r10     \n"                                               \
    "smlad  r12, r2, r4, r10     \n"                                               \
    "smlabt r11, r3, r7, r11     \n"                                               \
    "smlad  r12, r3, r6, r12     \n"                                               \
    "ldr    r2, [r0, #56]        \n"                                               \
    "ldr    r3, [r0, #8]         \n"                                               \
    "smlabt r11, r2, r9, r11     \n"                                               \
    "smlad  r12, r2, r8, r12     \n"                                               \
    "smlad  r11, r3, r8, r11     \n"                                               \
    "ldrd   r2, r3, [r0, #96]    \n"                                               \
    "smlabt r12, r2, r5, r12     \n"                                               \
    "smlabt r12, r3, r7, r12     \n"                                               \
    "ldr    r2, [r0, #104]       \n"                                               \
    "smlabt r12, r2, r9, r12     \n"                                               \
    "ldrd   r2, r3, [r0], #96    \n"                                               \
    "smlad  r11, r2, r4, r11     \n"                                               \
    "smlad  r11, r3, r6, r11     \n"

/* Frame: [0] mult [4] c [8] shift [12] twice the bias [16] end of the columns [20] first column [24] y
 * [28] w [32] bias [36] scale [40] channels [44] y_step [48] out_w */
#define TC_DSP_DW3X3(stride, finish)                                               \
    static TC_NAKED void tc_dsp_dw3x3_##stride##_##finish(                         \
        const int32_t *columns TC_UNUSED, const tc_dsp_dw3x3_t *p TC_UNUSED, int8_t *y TC_UNUSED) \
    {                                                                              \
        __asm__ volatile(                                                          \
            ".syntax unified             \n"                                       \
            "push   {r4-r11, lr}         \n"                                       \
            "sub    sp, sp, #52          \n"                                       \
            "strd   r0, r2, [sp, #20]    \n"                                       \
            "ldm    r1, {r3-r8}          \n"                                       \
            "add    r12, sp, #28         \n"                                       \
            "stm    r12, {r3-r8}         \n"                                       \
            "1:                          \n" /* a channel */                       \
            "ldr    r3, [sp, #28]        \n"                                       \
            "ldmia  r3!, {r4, r6, r8}    \n"                                       \
            "str    r3, [sp, #28]        \n"                                       \
            "sxtb16 r5, r4, ror #8       \n"                                       \
            "sxtb16 r4, r4               \n"                                       \
            "sxtb16 r7, r6, ror #8       \n"                                       \
            "sxtb16 r6, r6               \n"                                       \
            "sxtb16 r9, r8, ror #8       \n"                                       \
            "sxtb16 r8, r8               \n"                                       \
            "sadd16 r4, r4, r4           \n" /* twice the weights: twice the sums */ \
            "sadd16 r5, r5, r5           \n"                                       \
            "sadd16 r6, r6, r6           \n"                                       \
            "sadd16 r7, r7, r7           \n"                                       \
            "sadd16 r8, r8, r8           \n"                                       \
            "sadd16 r9, r9, r9           \n"                                       \
            "ldrd   r0, r1, [sp, #32]    \n"                                       \
            "ldr    r10, [r0], #4        \n"                                       \
            "ldmia  r1!, {r2, r3, r12}   \n"                                       \
            "strd   r0, r1, [sp, #32]    \n"                                       \
            "lsl    r10, r10, #1         \n"                                       \
            "strd   r2, r3, [sp]         \n"                                       \
            "strd   r12, r10, [sp, #8]   \n"                                       \
            "ldrd   r0, r1, [sp, #20]    \n"                                       \
            "ldrd   lr, r2, [sp, #44]    \n"                                       \
            "add    r10, r0, #12         \n"                                       \
            "add    r11, r1, #1          \n"                                       \
            "strd   r10, r11, [sp, #20]  \n"                                       \
            "lsr    r2, r2, #1           \n"                                       \
            "mov    r3, #48*" #stride "  \n"                                       \
            "mla    r2, r2, r3, r0       \n"                                       \
            "str    r2, [sp, #16]        \n"                                       \
            ".balign 4                   \n"                                       \
            "2:                          \n" /* two outputs */                     \
            "ldr    r10, [sp, #12]       \n"                                       \
            TC_DW_MAC_##stride                                                     \
            "ldrd   r2, r3, [sp]         \n"                                       \
            TC_DW_T_##finish                                                       \
            "ldr    r10, [sp, #8]        \n"                                       \
            "asr    r11, r11, r10        \n"                                       \
            "asr    r12, r12, r10        \n"                                       \
            "ssat   r11, #8, r11         \n"                                       \
            "ssat   r12, #8, r12         \n"                                       \
            "ldr    r10, [sp, #16]       \n"                                       \
            "strb   r12, [r1, lr]        \n"                                       \
            "strb   r11, [r1]            \n"                                       \
            "add    r1, r1, lr, lsl #1   \n"                                       \
            "cmp    r0, r10              \n"                                       \
            "bne.w  2b                   \n"                                       \
            "ldr    r10, [sp, #48]       \n"                                       \
            "tst    r10, #1              \n"                                       \
            "it     ne                   \n"                                       \
            "cmpne  lr, #0               \n"                                       \
            "beq.n  3f                   \n"                                       \
            "mov    lr, #0               \n" /* an odd output: again,                                        \
                and the second of two is overwritten */                                                      \
            "add    r10, r0, #48*" #stride " \n"                                   \
            "str    r10, [sp, #16]       \n"                                       \
            "b.w    2b                   \n"                                       \
            "3:                          \n"                                       \
            "ldr    r10, [sp, #40]       \n"                                       \
            "subs   r10, r10, #1         \n"                                       \
            "str    r10, [sp, #40]       \n"                                       \
            "bne.w  1b                   \n"                                       \
            "add    sp, sp, #52          \n"                                       \
            "pop    {r4-r11, pc}         \n");                                     \
    }

#else

static inline void tc_dsp_dw3x3_row(const int32_t *columns, const tc_dsp_dw3x3_t *p, int8_t *y,
                                    int32_t stride, int32_t finish)
{
    const tc_dsp_out_t out = {p->bias, p->scale, p->channels, finish, 0, 0, -128, 127, 0};

    for (int32_t o = 0; o < p->channels; o++) {
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            int32_t acc = p->bias[o];
            for (int32_t ky = 0; ky < 3; ky++) {
                const int32_t w = p->w[3 * o + ky], at = ox * stride;
                const int32_t *x = columns + 12 * (at / 2) + 3 * o + ky;
                if (at % 2 == 0) {
                    acc = tc_smlabt(x[12], tc_sxtb16_ror8(w), tc_smlad(x[0], tc_sxtb16(w), acc));
                } else {
                    acc = tc_smlad(x[12], tc_sxtb16_ror8(w), tc_smlatb(x[0], tc_sxtb16(w), acc));
                }
            }
            y[ox * p->y_step + o] = (int8_t)tc_dsp_scale(&out, out.scale + 3 * o, acc, finish);
        }
    }
}

#define TC_DSP_DW3X3(stride, finish)                                                                         \
    static TC_UNUSED void tc_dsp_dw3x3_##stride##_##finish(const int32_t *columns, const tc_dsp_dw3x3_t *p,  \
                                                           int8_t *y)                                        \
    {                                                                                                        \
        tc_dsp_dw3x3_row(columns, p, y, stride, finish);                                                     \
    }

#endif

TC_DSP_DW3X3(1, 1)
TC_DSP_DW3X3(1, 2)
TC_DSP_DW3X3(1, 3)
TC_DSP_DW3X3(2, 1)
TC_DSP_DW3X3(2, 2)
TC_DSP_DW3X3(2, 3)
#undef TC_DSP_DW3X3

/* Four channels of two neighbouring columns a and b of one row -> the word of each channel, three words
 * apart. */
static inline void tc_dsp_dw3x3_unpack(int32_t a, int32_t b, int32_t *to)
{
    const int32_t low = tc_pkhbt(a, b), high = tc_pkhtb(b, a);
    to[0] = tc_sxtb16(low);
    to[3] = tc_sxtb16_ror8(low);
    to[6] = tc_sxtb16(high);
    to[9] = tc_sxtb16_ror8(high);
}

/* Columns from -pad_left on of the `n` <= 4 channels from `first` on. */
static inline void tc_dsp_dw3x3_columns(const tc_depthwise_conv2d_3x3_s8_dsp_t *p, const int8_t *const *x,
                                        int32_t first, int32_t n, int32_t *to)
{
    for (int32_t i = 0, ix = -p->pad_left; i < p->pairs; i++, ix += 2, to += 12) {
        if (ix >= 0 && ix + 1 < p->in_w && n == 4) {
            const int32_t at = ix * p->in_c + first;
            tc_dsp_dw3x3_unpack(tc_load4(x[0] + at), tc_load4(x[0] + at + p->in_c), to);
            tc_dsp_dw3x3_unpack(tc_load4(x[1] + at), tc_load4(x[1] + at + p->in_c), to + 1);
            tc_dsp_dw3x3_unpack(tc_load4(x[2] + at), tc_load4(x[2] + at + p->in_c), to + 2);
            continue;
        }
        for (int32_t ky = 0; ky < 3; ky++) {
            const int8_t *a = ix >= 0 && ix < p->in_w ? x[ky] + ix * p->in_c + first : p->pad;
            const int8_t *b = ix + 1 >= 0 && ix + 1 < p->in_w ? x[ky] + (ix + 1) * p->in_c + first : p->pad;
            if (n == 4) {
                tc_dsp_dw3x3_unpack(tc_load4(a), tc_load4(b), to + ky);
            } else {
                tc_dsp_dw3x3_unpack(tc_load_tail(a, n), tc_load_tail(b, n), to + ky);
            }
        }
    }
}

static void tc_depthwise_conv2d_3x3_s8_dsp(const tc_depthwise_conv2d_3x3_s8_dsp_t *p, const int8_t *const *x,
                                           int8_t *y, void *scratch)
{
    int32_t *columns = (int32_t *)scratch;

    for (int32_t o = 0; o < p->in_c; o += 4) {
        const tc_dsp_dw3x3_t step = {
            p->w + 3 * o, p->out.bias + o, p->out.scale + 3 * o,
            p->in_c - o < 4 ? p->in_c - o : 4, p->in_c, p->out_w,
        };
        tc_dsp_dw3x3_columns(p, x, o, step.channels, columns);
        p->run(columns, &step, y + o);
    }
    for (int32_t i = 0; p->out.clamp && i < p->out_w * p->in_c; i++) {
        y[i] = (int8_t)tc_clamp(y[i], p->out.y_min, p->out.y_max);
    }
}

#endif
