/* SPDX-License-Identifier: 0BSD */
/* Layers of 1x1 weights whose constants lie in flash by two output channels: what the functions compute that
 * the compiler writes for single layers in assembly, in plain C. As tc_stream.h, packed int8 weights, but for
 * the order:
 *
 * stream: for each two output channels
 *   2 words      start values of the accumulators
 *   steps times  1 word, "A over B" (tc_dsp.h)
 *   2 times      mult, add[, shift]: of each channel
 *
 * Functions in assembly make four pixels by two channels together.
 */
#ifndef TC_STREAM_BY_TWOS_H
#define TC_STREAM_BY_TWOS_H

#include "tc_stream.h"

#if !TC_DSP_ASM

/* Two accumulators of one pixel. Returns the end of the weights. */
static inline const int32_t *tc_stream_by_twos_sums(const tc_stream_t *p, const int32_t *stream,
                                                    const int32_t *taps, int32_t *acc)
{
    const int32_t *w = stream + 2;
    acc[0] = stream[0];
    acc[1] = stream[1];
    for (int32_t i = 0; i < p->steps; i++, w++) {
        acc[0] = tc_smlad(taps[i], *w, acc[0]);
        acc[1] = tc_smlad(taps[i], tc_sxtb16(*w), acc[1]);
    }
    const int32_t over = tc_wrap((int64_t)acc[0] - acc[1]);
    acc[0] = p->halve ? over >> 7 : over;
    acc[1] = p->twice ? tc_wrap((int64_t)acc[1] * 2) : acc[1];
    return w;
}

/* As tc_stream_pixels. */
static TC_UNUSED void tc_stream_by_twos_pixels(const tc_stream_t *p, const int32_t *stream,
                                               const int8_t *const *x, int32_t first, int32_t n, int8_t *y,
                                               int32_t together, int32_t *taps)
{
    const int32_t constants = p->varies ? 3 : 2;
    for (int32_t i = 0; i < n; i += together) {
        const int32_t pixels = n - i < together ? n - i : together;
        for (int32_t k = 0; k < pixels; k++, first += p->pixel_bytes) {
            tc_stream_unpack(p, x, first, taps + k * p->steps);
        }
        for (int32_t k = 0; k < pixels; k++) {
            const int32_t *group = stream;
            for (int32_t o = 0; o < p->out_c; o += 2) {
                int32_t acc[2];
                group = tc_stream_by_twos_sums(p, group, taps + k * p->steps, acc);
                for (int32_t position = 0; position < 2; position++, group += constants) {
                    *y++ = (int8_t)tc_stream_finish(p, acc[position], position, group);
                }
            }
        }
    }
}

#endif

#endif
