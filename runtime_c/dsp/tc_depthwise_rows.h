/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise convolution with two or three kernel rows and constants in the order of use, int8:
 * in plain C what the functions compute that the compiler writes for single layers in assembly.
 *
 * stream: 1 word       the zero point four times, as bytes
 *         per channel  start value; weights; mult, add[, shift]
 * weights: words of two int16 taps: for each column those of the first two kernel rows; then of a third row,
 * for stride_w 2 (and k_w 1), taps (0, 1), (2, 3) ..., an odd last one with 0; for stride_w 1 taps (0, 1),
 * (1, 2) ...
 *
 * X = start + sum of x * w becomes an output as in tc_depthwise_planes.h.
 *
 * x: k_h row pointers. y: the output row; it may be one of them, because the rows' bytes of a channel are
 * read before its outputs are written. plane: room for k_h rows of `columns`.
 */
#ifndef TC_DEPTHWISE_ROWS_H
#define TC_DEPTHWISE_ROWS_H

#include "tc_depthwise_planes.h"

#if !TC_DSP_ASM

typedef struct {
    int32_t in_w, out_w, k_h, k_w, stride_w, pad_left, channels;
    int32_t columns; /* that windows reach, padding included */
    int32_t sign, varies, shift;
    int32_t y_min, y_max;
} tc_depthwise_rows_t;

/* Tap (row, column) of a channel. */
static inline int32_t tc_depthwise_rows_tap(const tc_depthwise_rows_t *p, const int32_t *words, int32_t row,
                                            int32_t column)
{
    const int32_t *single = words + p->k_w;
    if (row < 2) {
        return row ? tc_hi16(words[column]) : tc_lo16(words[column]);
    }
    if (p->stride_w == 2 || p->k_w == 1) {
        return column % 2 ? tc_hi16(single[column / 2]) : tc_lo16(single[column / 2]);
    }
    return column + 1 < p->k_w ? tc_lo16(single[column]) : tc_hi16(single[column - 1]);
}

static TC_UNUSED void tc_depthwise_rows(const tc_depthwise_rows_t *p, const int32_t *stream,
                                        const int8_t *const *x, int8_t *y, int16_t *plane)
{
    const int16_t zero = (int8_t)(uint8_t)*stream++;
    const int32_t pairs = p->stride_w == 2 || p->k_w == 1 ? (p->k_w + 1) / 2 : p->k_w - 1;
    tc_depthwise_planes_t requant; /* no initializer: compilers clear the rest by a call */
    requant.halve = 0;
    requant.sign = p->sign;
    requant.varies = p->varies;
    requant.shift = p->shift;
    requant.y_min = p->y_min;
    requant.y_max = p->y_max;
    for (int32_t channel = 0; channel < p->channels; channel++) {
        const int32_t *weights = stream + 1, *constants = weights + p->k_w + (p->k_h > 2 ? pairs : 0);
        for (int32_t row = 0; row < p->k_h; row++) {
            for (int32_t c = 0; c < p->columns; c++) {
                const int32_t ix = c - p->pad_left;
                plane[row * p->columns + c] = ix >= 0 &&
                    ix < p->in_w ? x[row][ix * p->channels + channel] : zero;
            }
        }
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            int32_t acc = *stream;
            for (int32_t row = 0; row < p->k_h; row++) {
                for (int32_t k = 0; k < p->k_w; k++) {
                    const int32_t w = tc_depthwise_rows_tap(p, weights, row, k);
                    acc = tc_wrap((int64_t)plane[row * p->columns + ox * p->stride_w + k] * w + acc);
                }
            }
            y[ox * p->channels + channel] = (int8_t)tc_depthwise_finish(&requant, acc, constants);
        }
        stream = constants + (p->varies ? 3 : 2);
    }
}

#endif
#endif
