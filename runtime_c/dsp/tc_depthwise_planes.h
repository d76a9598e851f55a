/* SPDX-License-Identifier: 0BSD */
/* Depthwise convolution with constants in the order of use, int8: in plain C what the functions compute that
 * the compiler writes for single layers in assembly (planes of int16, band by band of rows).
 *
 * Rows and columns of a layer may be the image's columns and rows: in_step, in_row are the bytes from column
 * to column and from row to row of the input; out_step, out_row of the output.
 *
 * stream: 1 word       the zero point four times, as bytes
 *         per channel  start value; weights; mult, add[, shift]
 * weights: words of two int16 taps, in the order in which a function uses them; it may have a tap twice.
 * bits 8 or 4: two or four such words in one, of each tap so many bits, the first word's on top of each half;
 * the weights come before the start value; at most TC_DEPTHWISE_NARROW words, and each tap times 2^8 or 2^12.
 *
 * X = start + sum of x * w becomes an output as tc_finish (tc_dsp.h) says.
 *
 * The input is the image x, or (x NULL) in_h row pointers. y may be x, or one of the rows: a band of output
 * rows is written when a channel's input rows up to its own last are read.
 */
#ifndef TC_DEPTHWISE_PLANES_H
#define TC_DEPTHWISE_PLANES_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

#define TC_DEPTHWISE_NARROW 64 /* words of narrow weights, unpacked */

typedef struct {
    int32_t in_h, in_w, out_h, out_w, k_h, k_w, stride_h, stride_w, pad_top, pad_left;
    int32_t in_step, in_row, out_step, out_row;
    int32_t channels;
    int32_t band;    /* output rows that scratch has room for */
    int32_t columns; /* of a plane, padding included */
    int32_t bits;    /* of a weight: 16, 8 or 4 */
    int32_t down;    /* X is shifted right by this first */
    tc_finish_t finish;
    int32_t words;       /* of the weights of a channel */
    const uint16_t *half; /* [k_h][k_w]: the half word of each tap, twice the word and 1 for the high one */
} tc_depthwise_planes_t;

/* Padded rows [first, first + rows) of a channel to `plane`. */
static inline void tc_depthwise_load(const tc_depthwise_planes_t *p, const int8_t *x,
                                     const int8_t *const *row, int32_t channel, int32_t first, int32_t rows,
                                     int16_t zero, int16_t *plane)
{
    for (int32_t r = first - p->pad_top; r < first - p->pad_top + rows; r++) {
        for (int32_t c = -p->pad_left; c < p->columns - p->pad_left; c++) {
            const int inside = r >= 0 && r < p->in_h && c >= 0 && c < p->in_w;
            *plane++ = inside ? (row ? row[r] : x + r * p->in_row)[c * p->in_step + channel] : zero;
        }
    }
}

/* Start value and weights of a channel with narrow weights. Returns the end of both in the stream. */
static inline const int32_t *tc_depthwise_narrow(const int32_t *stream, int32_t words, int32_t bits,
                                                 int32_t *to)
{
    const int32_t each = 16 / bits, packed = (words + each - 1) / each;
    const uint32_t mask = bits == 8 ? 0xff00ff00u : 0xf000f000u;
    to[0] = stream[packed];
    for (int32_t i = 0; i < words; i++) {
        to[1 + i] = (int32_t)((uint32_t)stream[i / each] << i % each * bits & mask);
    }
    return stream + packed + 1;
}

static TC_UNUSED void tc_depthwise_planes(const tc_depthwise_planes_t *p, const int32_t *stream,
                                          const int8_t *x, const int8_t *const *row, int8_t *y,
                                          int16_t *plane)
{
    const int16_t zero = (int8_t)(uint8_t)*stream++;
    const int32_t fresh = p->band * p->stride_h;
    const int32_t keep = p->k_h > p->stride_h ? p->k_h - p->stride_h : 0;
    for (int32_t channel = 0; channel < p->channels; channel++) {
        int32_t unpacked[1 + TC_DEPTHWISE_NARROW];
        const int32_t *constants = stream + 1 + p->words;
        if (p->bits < 16) {
            constants = tc_depthwise_narrow(stream, p->words, p->bits, unpacked);
            stream = unpacked;
        }
        const int32_t *weights = stream + 1;
        tc_depthwise_load(p, x, row, channel, 0, keep, zero, plane);
        for (int32_t first = 0; first < p->out_h; first += p->band) {
            const int32_t rows = first + p->band > p->out_h ? p->out_h - first : p->band;
            tc_depthwise_load(p, x, row, channel, first * p->stride_h + keep,
                              (rows - 1) * p->stride_h + p->k_h - keep, zero, plane + keep * p->columns);
            for (int32_t oy = 0; oy < rows; oy++) {
                for (int32_t ox = 0; ox < p->out_w; ox++) {
                    const int16_t *from = plane + oy * p->stride_h * p->columns + ox * p->stride_w;
                    int32_t acc = *stream;
                    for (int32_t k = 0; k < p->k_h * p->k_w; k++) {
                        const int32_t word = weights[p->half[k] / 2];
                        const int32_t w = p->half[k] % 2 ? tc_hi16(word) : tc_lo16(word);
                        acc = tc_wrap((int64_t)from[k / p->k_w * p->columns + k % p->k_w] * w + acc);
                    }
                    y[(first + oy) * p->out_row + ox * p->out_step + channel] =
                        tc_finish(&p->finish, acc >> p->down, 0, 0, constants);
                }
            }
            for (int32_t i = 0; i < keep * p->columns; i++) {
                plane[i] = plane[fresh * p->columns + i];
            }
        }
        stream = constants + tc_finish_words(&p->finish, 0);
    }
}

#endif
#endif
