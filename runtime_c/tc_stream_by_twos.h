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
                                                    const int8_t *const *x, int32_t first, int32_t *acc)
{
    const int32_t *w = stream + 2;
    acc[0] = stream[0];
    acc[1] = stream[1];
    for (int32_t i = 0; i < 2 * p->steps; i += 2, w++) {
        const int32_t taps = tc_halves(tc_stream_tap(p, i + 1, x, first), tc_stream_tap(p, i, x, first));
        acc[0] = tc_smlad(taps, *w, acc[0]);
        acc[1] = tc_smlad(taps, tc_sxtb16(*w), acc[1]);
    }
    const int32_t over = tc_wrap((int64_t)acc[0] - acc[1]);
    acc[0] = p->halve ? over >> 7 : over;
    acc[1] = p->twice ? tc_wrap((int64_t)acc[1] * 2) : acc[1];
    return w;
}

/* n pixels -> y [n][out_c]. Four pixels are read before their outputs are written, which may lie over
 * them. */
static TC_UNUSED void tc_stream_by_twos_pixels(const tc_stream_t *p, const int32_t *stream,
                                               const int8_t *const *x, int32_t first, int32_t n, int8_t *y)
{
    const int32_t constants = p->varies ? 3 : 2;
    int8_t made[4 * TC_STREAM_CHANNELS];
    for (int32_t i = 0; i < n; i += 4) {
        const int32_t pixels = n - i < 4 ? n - i : 4;
        int8_t *to = made;
        for (int32_t k = 0; k < pixels; k++, first += p->pixel_bytes) {
            const int32_t *group = stream;
            for (int32_t o = 0; o < p->out_c; o += 2) {
                int32_t acc[2];
                group = tc_stream_by_twos_sums(p, group, x, first, acc);
                for (int32_t position = 0; position < 2; position++, group += constants) {
                    *to++ = (int8_t)tc_stream_finish(p, acc[position], position, group);
                }
            }
        }
        for (int32_t k = 0; k < pixels * p->out_c; k++) {
            *y++ = made[k];
        }
    }
}

#endif

#endif
