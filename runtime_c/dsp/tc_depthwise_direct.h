/* SPDX-License-Identifier: 0BSD */
/* Depthwise convolution without scratch, int8: in plain C what the functions compute that the compiler writes
 * for single layers in assembly (row calls, four output channels by two pixels at a time).
 *
 * Output channel o reads input channel o / times. Output channels go by fours; where they are no multiple of
 * four, the last four are the channels from out_c - 4 on, so some are made twice.
 *
 * stream: for each four output channels
 *   4 words      start values of the accumulators
 *   2 per tap    int16 weights of channels 0 (low half) and 2, then of channels 1 and 3;
 *       taps in the order of `taps`,
 *                kernel row after kernel row
 *   4 times      mult, add[, shift]: of each channel
 *
 * X = start + sum of x * w becomes y as tc_finish (tc_dsp.h) says.
 */
#ifndef TC_DEPTHWISE_DIRECT_H
#define TC_DEPTHWISE_DIRECT_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

typedef struct {
    int32_t in_w, in_c, out_w, out_c, times, k_h, k_w, stride, dilation, pad_left, x_zero;
    tc_finish_t finish;
    const uint8_t *taps; /* [k_w]: columns of a kernel row in the order of their weights */
} tc_depthwise_direct_t;

/* x: k_h row pointers. y [out_w][out_c]. */
static TC_UNUSED void tc_depthwise_direct(const tc_depthwise_direct_t *p, const int32_t *stream,
                                          const int8_t *const *x, int8_t *y)
{
    const int32_t words = tc_finish_words(&p->finish, 0);
    for (int32_t group = 0; group < p->out_c; group += 4) {
        const int32_t first = group + 4 > p->out_c ? p->out_c - 4 : group;
        const int32_t *weights = stream + 4, *constants = weights + 2 * p->k_h * p->k_w;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t o = 0; o < 4; o++) {
                int32_t acc = stream[o];
                for (int32_t i = 0; i < p->k_h * p->k_w; i++) {
                    const int32_t word = weights[2 * i + o % 2];
                    const int32_t column = ox * p->stride - p->pad_left + p->taps[i % p->k_w] * p->dilation;
                    const int inside = column >= 0 && column < p->in_w;
                    const int32_t in = inside ? x[i / p->k_w][column * p->in_c + (first + o) / p->times]
                        : p->x_zero;
                    acc = tc_wrap((int64_t)in * (o / 2 ? tc_hi16(word) : tc_lo16(word)) + acc);
                }
                y[ox * p->out_c + first + o] = tc_finish(&p->finish, acc, o, 0, constants + o * words);
            }
        }
        stream = constants + 4 * words;
    }
}

/* The same for any number of channels and pixels, three columns, no dilation. The stream begins with the
 * numbers of channels and of pixels of an output row, the zero point in each byte, and which columns lie
 * outside the image: bit 30 one on the left, bit 31 one on the right. */
static TC_UNUSED void tc_depthwise_direct_any(const tc_finish_t *finish, int32_t k_h, int32_t stride,
                                              const int32_t *stream, const int8_t *const *x, int8_t *y)
{
    static const uint8_t taps[2][3] = {{0, 1, 2}, {0, 2, 1}};
    const int32_t channels = stream[0], out_w = stream[1], left = stream[3] >> 30 & 1;
    const int32_t beyond = stream[3] < 0;
    const tc_depthwise_direct_t layer = {
        .in_w = (out_w - 1) * stride - left + 3 - beyond,
        .in_c = channels,
        .out_w = out_w,
        .out_c = channels,
        .times = 1,
        .k_h = k_h,
        .k_w = 3,
        .stride = stride,
        .dilation = 1,
        .pad_left = left,
        .x_zero = tc_lo16(stream[2]) >> 8,
        .finish = *finish,
        .taps = taps[stride - 1],
    };
    tc_depthwise_direct(&layer, stream + 4, x, y);
}

#endif
#endif
