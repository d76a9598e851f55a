/* SPDX-License-Identifier: 0BSD */
/* Depthwise convolution whose windows are one column wide, constants in the order of use, int8: in plain C
 * what the functions compute that the compiler writes for single layers in assembly.
 *
 * Channels go by groups of four; where their number is no multiple, the last group begins with channels that
 * count for nothing. stream of a pixel, per group:
 *   4 words     start values
 *   2 rows      4 words: both rows' int16 weights of each channel, the first row's in the low half; ...
 *   a last row  2 words: its weights of channels 0, 2 and of channels 1, 3
 *   (int4: for 2 rows, or a last row, 1 word; each half has a row's weights of the channels, the first
 *   on top)
 *   constants   mult, add[, shift] of each channel that counts
 *
 * Sums by rows: for each row the 2 words of a last row per group, then the constants of all groups; the start
 * values are an array of their own, of all channels.
 *
 * X = start + sum of x * w becomes an output as tc_finish (tc_dsp.h) says. The input bytes of a group are
 * read before its outputs are written, so y may be one of the rows.
 */
#ifndef TC_DEPTHWISE_COLUMNS_H
#define TC_DEPTHWISE_COLUMNS_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

typedef struct {
    int32_t rows, channels;
    int32_t int4;  /* weights of 4 bits, times 2^12 */
    int32_t down;  /* X is shifted right by this first */
    tc_finish_t finish;
} tc_depthwise_columns_t;

/* The weight of channel i of a group in the two words of a single row. */
static inline int32_t tc_depthwise_columns_half(const int32_t *words, int32_t i)
{
    return i < 2 ? tc_lo16(words[i]) : tc_hi16(words[i - 2]);
}

/* The weight of channel i of a group in row `low` (0) or `high` (1) of the words of two rows; a last row is
 * the first of its own. */
static inline int32_t tc_depthwise_columns_weight(const tc_depthwise_columns_t *p, const int32_t *words,
                                                  int32_t i, int32_t high, int32_t both)
{
    if (p->int4) {
        const int32_t tops = (int32_t)((uint32_t)*words << 4 * i & 0xf000f000u);
        return high ? tc_hi16(tops) : tc_lo16(tops);
    }
    if (!both) {
        return high ? 0 : tc_depthwise_columns_half(words, i);
    }
    return high ? tc_hi16(words[i]) : tc_lo16(words[i]);
}

static TC_UNUSED void tc_depthwise_columns(const tc_depthwise_columns_t *p, const int32_t *stream,
                                           const int8_t *const *x, int8_t *y, int32_t offset)
{
    for (int32_t channel = 0; channel < p->channels;) {
        const int32_t first = p->channels - channel < 4 ? p->channels - 4 : channel;
        int32_t acc[4];
        for (int32_t i = 0; i < 4; i++) {
            acc[i] = stream[i];
        }
        stream += 4;
        for (int32_t row = 0; row < p->rows; row += 2) {
            const int32_t both = row + 1 < p->rows;
            for (int32_t i = 0; i < 4; i++) {
                const int32_t at = offset + first + i;
                const int32_t w = tc_depthwise_columns_weight(p, stream, i, 0, both);
                const int32_t next = both ? x[row + 1][at] : 0;
                acc[i] = tc_wrap((int64_t)x[row][at] * w + acc[i]);
                acc[i] = tc_wrap((int64_t)next * tc_depthwise_columns_weight(p, stream, i, 1, both) + acc[i]);
            }
            stream += p->int4 ? 1 : both ? 4 : 2;
        }
        for (; channel < first + 4; channel++) {
            y[channel] = tc_finish(&p->finish, acc[channel - first] >> p->down, 0, 0, stream);
            stream += tc_finish_words(&p->finish, 0);
        }
    }
}

/* One row more in the sums; stream: that row's. */
static TC_UNUSED void tc_depthwise_columns_add(const tc_depthwise_columns_t *p, const int32_t *stream,
                                               const int8_t *x, int32_t *sums)
{
    for (int32_t channel = 0; channel < p->channels; stream += 2) {
        const int32_t first = p->channels - channel < 4 ? p->channels - 4 : channel;
        for (; channel < first + 4; channel++) {
            const int32_t w = tc_depthwise_columns_half(stream, channel - first);
            sums[channel] = tc_wrap((int64_t)x[channel] * w + sums[channel]);
        }
    }
}

static TC_UNUSED void tc_depthwise_columns_end(const tc_depthwise_columns_t *p, const int32_t *constants,
                                               const int32_t *sums, int8_t *y)
{
    for (int32_t channel = 0; channel < p->channels; channel++, constants += tc_finish_words(&p->finish, 0)) {
        y[channel] = tc_finish(&p->finish, sums[channel] >> p->down, 0, 0, constants);
    }
}

#endif
#endif
