/* SPDX-License-Identifier: 0BSD */
/* One pixel of a convolution straight from int8 rows, constants in the order of use: in plain C what the
 * functions compute that the compiler writes for single layers in assembly.
 *
 * stream, for each four output channels: 4 words that are not used, then for each kernel row and column of
 * taps, four channels after four: 8 words, the int16 weights of the output channels for input channels 0, 2,
 * then for 1, 3 (the first in the low half); then mult, add[, shift] of each channel. The way to int8 is
 * tc_finish (tc_dsp.h).
 *
 * In each kernel row, `count` bytes from `first` on are read; the weights of `before` bytes of the stream in
 * front of theirs, and of `after` behind, are passed over. start: start values of all output channels, which
 * contain what is passed over.
 */
#ifndef TC_ROW_DIRECT_H
#define TC_ROW_DIRECT_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

typedef struct {
    int32_t k_h, out_c;
    tc_finish_t finish;
} tc_row_direct_t;

static inline void tc_row_direct(const tc_row_direct_t *p, const int32_t *stream, const int8_t *const *x,
                                 int8_t *y, const int32_t *start, int32_t first, int32_t count,
                                 int32_t before, int32_t after)
{
    for (int32_t group = 0; group < p->out_c; group += 4) {
        int32_t acc[4];
        for (int32_t o = 0; o < 4; o++) {
            acc[o] = start[group + o];
        }
        stream += 4;
        for (int32_t row = 0; row < p->k_h; row++) {
            stream += before / 4;
            for (int32_t i = first; i < first + count; i += 4) {
                for (int32_t half = 0; half < 2; half++, stream += 4) {
                    const int32_t taps = tc_halves(x[row][i + half + 2], x[row][i + half]);
                    for (int32_t o = 0; o < 4; o++) {
                        acc[o] = tc_smlad(taps, stream[o], acc[o]);
                    }
                }
            }
            stream += after / 4;
        }
        for (int32_t o = 0; o < 4; o++, stream += tc_finish_words(&p->finish, o)) {
            *y++ = tc_finish(&p->finish, acc[o], o, 0, stream);
        }
    }
}

#endif
#endif
