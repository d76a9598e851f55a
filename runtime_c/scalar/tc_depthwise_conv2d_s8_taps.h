/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise 2-D convolution of any size on a core without DSP instructions, one output per input
 * channel.
 *
 *   acc[ox][c] = bias[c] + sum over ky, kx of x[ky][ox*stride_w - pad_left + kx*dilation_w][c] * w[c][ky][kx]
 *   y[ox][c]   = clamp(requantize(acc, mult[c], shift[c]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[c]), so the loop subtracts nothing and a padded tap reads x_zero.
 * x: k_h pointers to input rows s8 [in_w][out_c]; a row outside the image points to zero points. y
 * [out_w][out_c].
 * pad: at least out_c bytes of x_zero. w [out_c][taps], taps = k_h * k_w rounded up to a multiple of 4 with
 * zeros; int4: words [out_c][taps / 8], taps a multiple of 8, the first tap in the lowest bits. scratch: a
 * pointer for each tap of a pixel.
 */
#ifndef TC_DEPTHWISE_CONV2D_S8_TAPS_H
#define TC_DEPTHWISE_CONV2D_S8_TAPS_H

#include "tc_scalar.h"

typedef struct {
    const int8_t *w;
    const int32_t *nibbles; /* int4 weights, instead of w */
    tc_scalar_out_t out;
    const int8_t *pad;
    int32_t in_w, out_w, k_h, k_w, stride_w, pad_left, dilation_w, taps;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_depthwise_taps_t;

/* Pointers to the taps of pixel ox, then to padding. */
static inline void tc_depthwise_taps_find(const tc_depthwise_taps_t *p, const int8_t *const *x, int32_t ox,
                                          const int8_t **to)
{
    const int8_t **const end = to + p->taps;
    for (int32_t ky = 0; ky < p->k_h; ky++) {
        int32_t ix = ox * p->stride_w - p->pad_left;
        for (int32_t kx = 0; kx < p->k_w; kx++, ix += p->dilation_w) {
            *to++ = ix >= 0 && ix < p->in_w ? x[ky] + ix * p->out.out_c : p->pad;
        }
    }
    while (to < end) {
        *to++ = p->pad;
    }
}

/* Channel c times int8 weights, each plus an offset. */
TC_INLINE int32_t tc_depthwise_taps_sum(const int8_t *const *from, const int8_t *w, int32_t taps, int32_t c,
                                        int32_t offset)
{
    int32_t sum = 0;
    for (const int8_t *const *const end = from + taps; from < end; from += 4, w += 4) {
        sum += from[0][c] * (w[0] + offset);
        sum += from[1][c] * (w[1] + offset);
        sum += from[2][c] * (w[2] + offset);
        sum += from[3][c] * (w[3] + offset);
    }
    return sum;
}

/* Bits [at, at + 4) of a word. */
#define TC_SCALAR_BITS(word, at) ((int32_t)((uint32_t)(word) << (28 - (at))) >> 28)

/* Channel c times int4 weights. */
TC_INLINE int32_t tc_depthwise_taps_sum4(const int8_t *const *from, const int32_t *w, int32_t taps, int32_t c)
{
    int32_t sum = 0;
    for (const int8_t *const *const end = from + taps; from < end; from += 8, w++) {
        const int32_t word = *w;
        sum += from[0][c] * TC_SCALAR_BITS(word, 0);
        sum += from[1][c] * TC_SCALAR_BITS(word, 4);
        sum += from[2][c] * TC_SCALAR_BITS(word, 8);
        sum += from[3][c] * TC_SCALAR_BITS(word, 12);
        sum += from[4][c] * TC_SCALAR_BITS(word, 16);
        sum += from[5][c] * TC_SCALAR_BITS(word, 20);
        sum += from[6][c] * TC_SCALAR_BITS(word, 24);
        sum += from[7][c] * TC_SCALAR_BITS(word, 28);
    }
    return sum;
}

#undef TC_SCALAR_BITS

/* int4: a literal. */
TC_INLINE void tc_depthwise_taps_row(const tc_depthwise_taps_t *p, const int8_t *const *x, int8_t *y,
                                     void *scratch, int32_t int4, int32_t offset)
{
    const int8_t **const from = (const int8_t **)scratch;
    const int32_t out_c = p->out.out_c, taps = p->taps;

    for (int32_t ox = 0; ox < p->out_w; ox++, y += out_c) {
        const int8_t *w = p->w;
        const int32_t *nibbles = p->nibbles;
        tc_depthwise_taps_find(p, x, ox, from);
        for (int32_t c = 0; c < out_c;) {
            const int32_t first = c, end = c + 4 < out_c ? c + 4 : out_c;
            int32_t acc[4];
            for (; c < end; c++) {
                if (int4) {
                    acc[c - first] = tc_depthwise_taps_sum4(from, nibbles, taps, c);
                    nibbles += taps >> 3;
                } else {
                    acc[c - first] = tc_depthwise_taps_sum(from, w, taps, c, offset);
                    w += taps;
                }
            }
            p->store(&p->out, acc, first, y + first);
        }
    }
}

static TC_UNUSED void tc_depthwise_conv2d_s8_taps(const tc_depthwise_taps_t *p, const int8_t *const *x,
                                                  int8_t *y, void *scratch)
{
    tc_depthwise_taps_row(p, x, y, scratch, 0, 0);
}

static TC_UNUSED void tc_depthwise_conv2d_s8_w4_taps(const tc_depthwise_taps_t *p, const int8_t *const *x,
                                                     int8_t *y, void *scratch)
{
    tc_depthwise_taps_row(p, x, y, scratch, 1, 0);
}

/* With weights that have a zero point: the weight of a tap is w + offset, of taps beyond the last w is
 * -offset. */
static TC_UNUSED void tc_depthwise_conv2d_s8_offset_taps(const tc_depthwise_taps_t *p, const int8_t *const *x,
                                                         int8_t *y, void *scratch, int32_t offset)
{
    tc_depthwise_taps_row(p, x, y, scratch, 0, offset);
}

#endif
