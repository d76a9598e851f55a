/* SPDX-License-Identifier: 0BSD */
/* Weighted int8 layers whose constants lie in flash in the order of use: what the functions compute that the
 * compiler writes for single layers in assembly, in plain C.
 *
 * A layer is a list of taps. Tap i of a pixel is the byte x[row[i]][first + at[i] + pixel * pixel_bytes] of
 * the input rows x; a tap of at -1 is nothing, its weights are 0. Taps go by pairs, "steps"; the order is the
 * layer's.
 *
 * stream: common: mult and add of all channels. out_c 0: the bytes from the first group to the end, less the
 * constants of a last group that is not full, and out_c. Then for each four output channels (the last four
 * padded with zeros), or of packed weights `together`
 *   together     start values of the accumulators
 *   steps times  wide: 4 words, the int16 weights of each channel for both taps, first tap in the low half
 *                packed: a word for each two channels, "A over B" (tc_dsp.h), of channels 0, 1; 2, 3 ...
 *                fours: 1 word; each half has 4096 d0 + 256 d1 + 16 d2 + d3 of four channels,
 *                    d0 the int4 weight, d1 and
 *                d3 the weight + 8, d2 the weight or the weight + 8
 *                nibbles: 1 word; each half has the int4 weights of four channels, the first on top
 *   together     mult[, add[, shift]]: of each channel, if they are not common
 *
 * The accumulator X of a channel becomes y as tc_finish (tc_dsp.h) says. The start values and constants
 * contain bias, zero points, rounding, and in wide streams a power of two.
 */
#ifndef TC_STREAM_H
#define TC_STREAM_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

#define TC_STREAM_TOGETHER 8

typedef struct {
    int32_t steps, pixel_bytes;
    int32_t out_c;             /* 0: it is in the stream */
    int32_t together;          /* channels of a group of the stream, at most TC_STREAM_TOGETHER */
    int32_t packed;            /* int8 weights, A over B */
    int32_t fours;             /* int4 weights; 1: d2 is the weight, 2: the weight + 8 */
    int32_t nibbles;           /* int4 weights, each times 2^12 */
    /* nibbles: X is 4096 acc (halve: 2 acc). fours: X is 4096, 256, 16, 16 acc of the channels (halve: 2
     * acc). packed: X is 256 acc (halve: 2 acc) of even channels, 2^twice acc of odd ones */
    int32_t halve, twice, common;
    tc_finish_t finish;
    const uint8_t *row;        /* [2 * steps] */
    const int16_t *at;         /* [2 * steps] */
} tc_stream_t;

static inline int32_t tc_stream_tap(const tc_stream_t *p, int32_t i, const int8_t *const *x, int32_t first)
{
    return p->at[i] < 0 ? 0 : x[p->row[i]][first + p->at[i]];
}

/* The taps of a pixel: by pairs in `taps`, or (NULL) where they lie. */
typedef struct {
    const int32_t *taps;
    const int8_t *const *x;
    int32_t first;
} tc_stream_pixel_t;

/* The taps of a step, one in each half, as the products take them. */
static inline int32_t tc_stream_pair(const tc_stream_t *p, const tc_stream_pixel_t *pixel, int32_t step)
{
    return pixel->taps ? pixel->taps[step]
                       : tc_halves(tc_stream_tap(p, 2 * step + 1, pixel->x, pixel->first),
                                   tc_stream_tap(p, 2 * step, pixel->x, pixel->first));
}

/* Four accumulators of one pixel with int4 weights. Returns the end of the weights. */
static inline const int32_t *tc_stream_sums_of_fours(const tc_stream_t *p, const int32_t *stream,
                                                     const tc_stream_pixel_t *pixel, int32_t *acc)
{
    const int32_t *w = stream + 4;
    const int32_t low = p->halve ? 1 : 4;
    int32_t sum = 0;

    for (int32_t o = 0; o < 4; o++) {
        acc[o] = stream[o];
    }
    for (int32_t i = 0; i < p->steps; i++, w++) {
        const int32_t taps = tc_stream_pair(p, pixel, i), cleared = *w & 0x0fff0fff;
        acc[0] = tc_smlad(taps, *w, acc[0]);
        acc[1] = tc_smlad(taps, cleared, acc[1]);
        acc[2] = tc_smlad(taps, p->fours == 1 ? tc_sxtb16(cleared) : cleared & 0x00ff00ff, acc[2]);
        acc[3] = tc_smlad(taps, cleared & 0x000f000f, acc[3]);
        sum = tc_smlad(taps, 0x00010001, sum);
    }
    acc[0] = tc_wrap((int64_t)acc[0] - acc[1]);
    acc[1] = tc_wrap((int64_t)acc[1] - acc[2] - (int64_t)sum * 2048);
    acc[2] = tc_wrap((int64_t)acc[2] - acc[3] - (p->fours == 1 ? 0 : (int64_t)sum * 128));
    acc[3] = tc_wrap(((int64_t)acc[3] - (int64_t)sum * 8) * (1 << low));
    for (int32_t o = 0; o < 3 && p->halve; o++) {
        acc[o] >>= 11 - 4 * o;
    }
    return w;
}

/* The accumulators of a group for one pixel. Returns the end of the weights. */
static inline const int32_t *tc_stream_sums(const tc_stream_t *p, const int32_t *stream,
                                            const tc_stream_pixel_t *pixel, int32_t *acc)
{
    const int32_t *w = stream + p->together;
    if (p->fours) {
        return tc_stream_sums_of_fours(p, stream, pixel, acc);
    }
    for (int32_t o = 0; o < p->together; o++) {
        acc[o] = stream[o];
    }
    for (int32_t i = 0; i < p->steps; i++) {
        const int32_t taps = tc_stream_pair(p, pixel, i);
        if (p->nibbles) {
            for (int32_t o = 0; o < 4; o++) {
                acc[o] = tc_smlad(taps, (int32_t)((uint32_t)*w << 4 * o & 0xf000f000u), acc[o]);
            }
            w++;
        } else if (p->packed) {
            for (int32_t o = 0; o < p->together; o += 2, w++) {
                acc[o] = tc_smlad(taps, *w, acc[o]);
                acc[o + 1] = tc_smlad(taps, tc_sxtb16(*w), acc[o + 1]);
            }
        } else {
            for (int32_t o = 0; o < 4; o++, w++) {
                acc[o] = tc_smlad(taps, *w, acc[o]);
            }
        }
    }
    for (int32_t o = 0; o < 4 && p->nibbles && p->halve; o++) {
        acc[o] >>= 11;
    }
    if (p->packed) {
        for (int32_t o = 0; o < p->together; o += 2) {
            const int32_t over = tc_wrap((int64_t)acc[o] - acc[o + 1]);
            acc[o] = p->halve ? over >> 7 : over;
            acc[o + 1] = tc_wrap((int64_t)acc[o + 1] * (1 << p->twice));
        }
    }
    return w;
}

/* n pixels -> y [n][out_c], `together` of them read before their outputs are written, which may lie over
 * them. taps: scratch of `together` times p->steps; NULL: outputs lie elsewhere, and nothing is copied. */
static TC_UNUSED void tc_stream_pixels(const tc_stream_t *p, const int32_t *stream, const int8_t *const *x,
                                       int32_t first, int32_t n, int8_t *y, int32_t together, int32_t *taps)
{
    const int32_t *const groups = stream + 2 * p->common + (p->out_c ? 0 : 2);
    const int32_t out_c = p->out_c ? p->out_c : groups[-1];
    for (int32_t i = 0; i < n; i += together, first += together * p->pixel_bytes) {
        const int32_t pixels = n - i < together ? n - i : together;
        for (int32_t k = 0; k < pixels && taps; k++) {
            const tc_stream_pixel_t there = {NULL, x, first + k * p->pixel_bytes};
            for (int32_t step = 0; step < p->steps; step++) {
                taps[k * p->steps + step] = tc_stream_pair(p, &there, step);
            }
        }
        for (int32_t k = 0; k < pixels; k++) {
            const int32_t *const own = taps ? taps + k * p->steps : NULL;
            const tc_stream_pixel_t pixel = {own, x, first + k * p->pixel_bytes};
            const int32_t *group = groups;
            for (int32_t o = 0; o < out_c; o += p->together) {
                int32_t acc[TC_STREAM_TOGETHER];
                group = tc_stream_sums(p, group, &pixel, acc);
                for (int32_t position = 0; position < p->together; position++) {
                    if (o + position < out_c) {
                        const int32_t *const own = p->common ? stream : group;
                        *y++ = tc_finish(&p->finish, acc[position], position, 0, own);
                    }
                    group += p->common ? 0 : tc_finish_words(&p->finish, position);
                }
            }
        }
    }
}

#define TC_STREAM_ANY_TAPS 256

/* The taps of a step of 1x1 weights for any number of input channels: fours, the first of which overlaps with
 * the second where there is no multiple of four; steps in reverse. */
static inline int32_t tc_stream_any_pair(const int8_t *x, int32_t in_c, int32_t step)
{
    static const uint8_t order[4] = {0, 2, 1, 3};
    const int32_t fours = (in_c + 3) / 4, four = step / 2, half = step % 2 * 2;
    const int8_t *const from = four == 0 ? x : x + in_c - 4 * (fours - four);
    return four < fours ? tc_halves(from[order[half + 1]], from[order[half]]) : 0;
}

/* n pixels of 1x1 weights, packed. The stream begins with the numbers of input and output channels; steps are
 * filled up to eights. */
static TC_UNUSED void tc_stream_any(const tc_finish_t *finish, int32_t halve, int32_t twice,
                                    const int32_t *stream, const int8_t *x, int8_t *y, int32_t n)
{
    const int32_t in_c = stream[0], out_c = stream[1];
    const tc_stream_t layer = {
        .steps = (in_c + 15) / 16 * 8, .together = 4, .packed = 1, .halve = halve, .twice = twice};
    int32_t taps[2][TC_STREAM_ANY_TAPS / 2];
    for (int32_t i = 0; i < n; i += 2, x += 2 * in_c) {
        const int32_t pixels = n - i < 2 ? 1 : 2;
        for (int32_t k = 0; k < pixels * layer.steps; k++) {
            const int32_t step = k % layer.steps, pixel = k / layer.steps;
            taps[pixel][step] = tc_stream_any_pair(x + pixel * in_c, in_c, layer.steps - 1 - step);
        }
        for (int32_t pixel = 0; pixel < pixels; pixel++) {
            const tc_stream_pixel_t own = {taps[pixel], NULL, 0};
            const int32_t *group = stream + 2;
            for (int32_t o = 0; o < out_c; o += 4) {
                int32_t acc[4];
                group = tc_stream_sums(&layer, group, &own, acc);
                for (int32_t position = 0; position < 4; position++) {
                    if (o + position < out_c) {
                        *y++ = tc_finish(finish, acc[position], position, 0, group);
                    }
                    group += tc_finish_words(finish, position);
                }
            }
        }
    }
}

#endif

/* k_h rows of `left` times x_zero, `copied` bytes of row x[k] from `begin` on, `right` times x_zero; rows[k]
 * points to each. Rows start at multiples of 4 bytes. */
static TC_UNUSED void tc_stream_block(const int8_t *const *x, const int8_t **rows, int8_t *to, int32_t k_h,
                                      int32_t x_zero, int32_t left, int32_t begin, int32_t copied,
                                      int32_t right)
{
    const int32_t size = left + copied + right;
    for (int32_t k = 0; k < k_h; k++) {
        rows[k] = to;
        for (int32_t i = 0; i < size; i++) {
            const int32_t from = i - left;
            to[i] = from >= 0 && from < copied ? x[k][begin + from] : (int8_t)x_zero;
        }
        to += (size + 3) / 4 * 4;
    }
}

#endif
