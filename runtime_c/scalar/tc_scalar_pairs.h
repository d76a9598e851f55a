/* SPDX-License-Identifier: 0BSD */
/* Fully connected on cores without DSP instructions: two products in one multiplication, of weights that stay
 * int8.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * Modulo 2^32, (x1 + 2^16 x0) * (w0 + 2^16 w1) = x1 w0 + 2^16 (x0 w0 + x1 w1). Summed over a segment of taps,
 * the upper half is a part of the dot product, as long as it fits there and the sum of the x1 w0 fits the
 * lower half; the compiler chooses the segments so, and takes from weights what does not fit: `fixes` add it
 * again.
 *
 * A word of weights is four taps of an output, each plus `zero`: its bytes 0 and 2, and 1 and 3, are factors
 * after one AND. What they are too much is known from the inputs, zero (1 + 2^16) times the sum of their
 * factors, and every segment starts at minus that, plus 2^15 so that the lower half is not negative.
 * zero: 128 for int8, the zero point of uint8 weights that have one.
 *
 * bias already contains -x_zero * sum(w[o]). x [batch][in_c]. y [batch][out_c]; a row of x is read before its
 * outputs are written. w [out_c / 4][words][4], out_c rounded up to a multiple of 8, words: of a whole number
 * of segments, `zero` beyond the last output and input. scratch: for each segment, its start and two factors
 * for each word. fixes [][output, place, weight] by outputs, then an output beyond the last; place: 2 times
 * the place of a factor in scratch, plus 1 for its upper half.
 */
#ifndef TC_SCALAR_PAIRS_H
#define TC_SCALAR_PAIRS_H

#include "tc_scalar.h"
#include "tc_scalar_pair_sums.h"

typedef struct {
    const int32_t *w;
    const int16_t *fixes;
    tc_scalar_out_t out;
    int32_t batch, in_c, words;
    int32_t segment; /* words of each: 2 or 4 */
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_scalar_pairs_t;

/* x [in_c] -> starts and factors of its segments. */
static inline void tc_scalar_pairs_inputs(const int8_t *x, int32_t in_c, int32_t words, int32_t segment,
                                          int32_t zero, uint32_t *to)
{
    for (int32_t word = 0, i = 0; word < words;) {
        uint32_t *const start = to++;
        uint32_t sum = 0;
        for (int32_t k = 0; k < segment; k++, word++, i += 4, to += 2) {
            uint32_t taps[4];
            tc_clear((int32_t *)taps, 4);
            for (int32_t j = 0; j < 4 && i + j < in_c; j++) {
                taps[j] = (uint32_t)x[i + j];
            }
            to[0] = taps[2] + (taps[0] << 16);
            to[1] = taps[3] + (taps[1] << 16);
            sum += to[0] + to[1];
        }
        *start = 0x8000u - sum * ((uint32_t)zero * 0x00010001u);
    }
}

static inline void tc_scalar_pairs_run(const tc_scalar_pairs_t *p, const int8_t *x, int8_t *y, void *scratch,
                                       int32_t zero)
{
    uint32_t *const inputs = (uint32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const uint32_t *w = (const uint32_t *)(const void *)p->w;
        const int16_t *fix = p->fixes;
        tc_scalar_pairs_inputs(x, p->in_c, p->words, p->segment, zero, inputs);
        for (int32_t o = 0; o < out_c; o += 8, w += 8 * p->words) {
            int32_t acc[8];
            if (p->segment == 2) {
                tc_scalar_pairs_2(inputs, w, p->words, acc);
            } else {
                tc_scalar_pairs_4(inputs, w, p->words, acc);
            }
            for (; fix[0] < o + 8; fix += 3) {
                const uint32_t factor = inputs[fix[1] >> 1];
                const int32_t tap = fix[1] & 1 ? (int32_t)(factor + 0x8000u) >> 16 : (int16_t)factor;
                acc[fix[0] - o] += tap * fix[2];
            }
            p->store(&p->out, acc, o, y + o);
            if (o + 4 < out_c) p->store(&p->out, acc + 4, o + 4, y + o + 4);
        }
    }
}

#define TC_SCALAR_PAIRS_HELD 32  /* words of taps that are on the stack as factors, */
#define TC_SCALAR_PAIRS_SUMS 64  /* and outputs that are there as sums */

/* Adds fixes of the outputs below `last`, and of inputs whose factors are `inputs`, places [least, end) of
 * all, to acc, which begins with output `first`; the first fix that is none of these. */
static inline const int16_t *tc_scalar_pairs_fix(const int16_t *fix, int32_t first, int32_t last,
                                                 const uint32_t *inputs, int32_t least, int32_t end,
                                                 int32_t *acc)
{
    for (; fix[0] < last && fix[1] >> 1 < end; fix += 3) {
        const uint32_t factor = inputs[(fix[1] >> 1) - least];
        const int32_t tap = fix[1] & 1 ? (int32_t)(factor + 0x8000u) >> 16 : (int16_t)factor;
        acc[fix[0] - first] += tap * fix[2];
    }
    return fix;
}

/* The same with factors on the stack, 128 inputs at a time. w: for each of these parts of the inputs as
 * above; fixes: for each 64 outputs those of one part after the other. */
static inline void tc_scalar_pairs_held(const tc_scalar_pairs_t *p, const int8_t *x, int8_t *y, int32_t zero)
{
    const int32_t out_c = p->out.out_c, whole = (out_c + 7) & ~7;
    uint32_t inputs[TC_SCALAR_PAIRS_HELD * 5 / 2];
    int32_t acc[TC_SCALAR_PAIRS_SUMS];

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int16_t *fix = p->fixes;
        for (int32_t first = 0; first < out_c; first += TC_SCALAR_PAIRS_SUMS) {
            const int32_t last = whole - first < TC_SCALAR_PAIRS_SUMS ? whole : first + TC_SCALAR_PAIRS_SUMS;
            const uint32_t *w = (const uint32_t *)(const void *)p->w;
            int32_t place = 0;
            for (int32_t word = 0; word < p->words; word += TC_SCALAR_PAIRS_HELD) {
                const int32_t n = p->words - word < TC_SCALAR_PAIRS_HELD ? p->words - word
                    : TC_SCALAR_PAIRS_HELD;
                const int32_t places = 2 * n + n / p->segment;
                if (first == 0 || n < p->words) {
                    tc_scalar_pairs_inputs(x + 4 * word, p->in_c - 4 * word, n, p->segment, zero, inputs);
                }
                for (int32_t o = first; o < last; o += 8) {
                    int32_t sums[8], *const to = acc + (o - first), *const these = word ? sums : to;
                    if (p->segment == 2) {
                        tc_scalar_pairs_2(inputs, w + o * n, n, these);
                    } else {
                        tc_scalar_pairs_4(inputs, w + o * n, n, these);
                    }
                    for (int32_t i = 0; word && i < 8; i++) {
                        to[i] += sums[i];
                    }
                }
                fix = tc_scalar_pairs_fix(fix, first, last, inputs, place, place + places, acc);
                place += places;
                w += whole * n;
            }
            for (int32_t o = first; o < last && o < out_c; o += 4) {
                p->store(&p->out, acc + (o - first), o, y + o);
            }
        }
    }
}

#endif
