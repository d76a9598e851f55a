/* SPDX-License-Identifier: 0BSD */
/* fully_connected of one row, int8, from constants in the order of use, the inputs never copied: in plain C
 * what the functions compute that the compiler writes for single layers in assembly. Inputs go by fours,
 * outputs by eights.
 *
 * stream: for each eight outputs (the last padded with zeros)
 *   8 words      start values of the accumulators
 *   per 4 inputs 4 words of inputs 0 and 2 of them, then 4 of inputs 1 and 3: "A over B" (tc_dsp.h) of
 *       outputs 0 and 1,
 *                2 and 3, 4 and 5, 6 and 7
 *   8 times      mult, add[, shift]: of each output
 *
 * The accumulator X of an output becomes y as in tc_stream.h.
 */
#ifndef TC_DENSE_HELD_H
#define TC_DENSE_HELD_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

typedef struct {
    int32_t in_c, out_c;
    int32_t halve, twice; /* X is 256 acc (halve: 2 acc) of even outputs, acc (twice: 2 acc) of odd ones */
    int32_t sign, varies; /* as in tc_stream.h */
    int32_t shift[2];     /* of even and odd outputs */
    int32_t y_min, y_max;
} tc_dense_held_t;

static TC_UNUSED void tc_dense_held(const tc_dense_held_t *p, const int32_t *stream, const int8_t *x,
                                    int8_t *y)
{
    const int32_t words = p->varies ? 3 : 2;
    for (int32_t group = 0; group < p->out_c; group += 8) {
        const int32_t *w = stream + 8, *constants = w + p->in_c * 2;
        int32_t acc[8];
        for (int32_t o = 0; o < 8; o++) {
            acc[o] = stream[o];
        }
        for (int32_t i = 0; i < p->in_c; i += 4, w += 8) {
            for (int32_t o = 0; o < 8; o++) {
                const int32_t taps = tc_halves(x[i + o / 4 + 2], x[i + o / 4]), pair = o % 4 * 2;
                acc[pair] = tc_smlad(taps, w[o], acc[pair]);
                acc[pair + 1] = tc_smlad(taps, tc_sxtb16(w[o]), acc[pair + 1]);
            }
        }
        for (int32_t o = 0; o < 8 && group + o < p->out_c; o++) {
            const int32_t *k = constants + o * words, odd = o % 2;
            const int32_t over = odd ? acc[o] : tc_wrap((int64_t)acc[o] - acc[o + 1]);
            const int32_t in = odd ? (p->twice ? tc_wrap((int64_t)over * 2) : over) : (p->halve ? over >> 7
                : over);
            const int32_t t = p->sign ? tc_smmlar(in, k[0], k[1]) - (in < 0) : tc_smmla(in, k[0], k[1]);
            y[group + o] = (int8_t)tc_clamp(tc_ssat8(t >> (p->varies ? k[2] : p->shift[odd])), p->y_min,
                                            p->y_max);
        }
        stream = constants + 8 * words;
    }
}

#endif
#endif
