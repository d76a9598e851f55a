/* SPDX-License-Identifier: 0BSD */
/* tc_svdf_s8 with the DSP extension: the same bytes.
 *
 * features: of the filters, 0 up to a multiple of eight, for every eight filters `words` times eight words
 * for tc_dsp_dot_1x8 (tc_dsp.h), whose sums the compiler bounds; words: in_c / 4 rounded up. feature_bias as
 * many as filters. after may be before. scratch: 8 * words bytes, aligned to 4.
 */
#ifndef TC_SVDF_S8_DSP_H
#define TC_SVDF_S8_DSP_H

#include "tc_dsp.h"
#include "tc_svdf.h"

typedef struct {
    const int32_t *features;
    const int16_t *times;        /* [filters][memory] */
    const int32_t *feature_bias; /* [8 * ceil(filters / 8)] -x_zero * sum of the filter's features */
    const int32_t *bias;         /* [filters / rank] */
    int32_t filters, rank, memory, in_c, words;
    int32_t in_mult, in_shift; /* to the scale of the state */
    int32_t mult, shift, rounds;
    int32_t y_zero, y_min, y_max;
} tc_svdf_s8_dsp_t;

static void tc_svdf_s8_dsp(const tc_svdf_s8_dsp_t *p, const int8_t *x, const int16_t *before, int8_t *y,
                           int16_t *after, void *scratch)
{
    const int32_t memory = p->memory;
    const int16_t *times = p->times;
    const int32_t *bias = p->bias;
    int32_t *xs = (int32_t *)scratch;
    uint32_t sum = 0;
    int32_t newest[8], left = 0; /* filters that the unit still needs */

    tc_dsp_unpack_1(x, p->in_c, xs);
    for (int32_t f = 0; f < p->filters; f++, before += memory, after += memory, times += memory) {
        if (f % 8 == 0) {
            tc_dsp_dot_1x8(xs, p->features + f * p->words, p->words, p->feature_bias + f, newest);
        }
        if (left == 0) {
            left = p->rank;
            sum = (uint32_t)*bias++;
        }
        const int32_t scaled = tc_requantize(newest[f % 8], p->in_mult, p->in_shift, p->rounds);
        const int32_t now = tc_clamp(scaled, INT16_MIN, INT16_MAX);
        sum = tc_svdf_times(before, times, memory, now, after, sum);
        if (--left == 0) {
            const int32_t q = tc_requantize((int32_t)sum, p->mult, p->shift, p->rounds) + p->y_zero;
            *y++ = (int8_t)tc_clamp(q, p->y_min, p->y_max);
        }
    }
}

#endif
