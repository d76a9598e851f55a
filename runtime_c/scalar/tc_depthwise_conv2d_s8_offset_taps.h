/* SPDX-License-Identifier: 0BSD */
/* tc_depthwise_conv2d_s8_taps with weights that have a zero point: the weight of a tap is w + offset, of taps
 * beyond the last w is -offset. */
#ifndef TC_DEPTHWISE_CONV2D_S8_OFFSET_TAPS_H
#define TC_DEPTHWISE_CONV2D_S8_OFFSET_TAPS_H

#include "tc_depthwise_conv2d_s8_taps.h"

static TC_UNUSED void tc_depthwise_conv2d_s8_offset_taps(const tc_depthwise_taps_t *p, const int8_t *const *x,
                                                         int8_t *y, void *scratch, int32_t offset)
{
    const int8_t **const first = (const int8_t **)scratch, *const *const end = first + p->taps;
    const int32_t out_c = p->out.out_c;

    for (int32_t ox = 0; ox < p->out_w; ox++, y += out_c) {
        const int8_t *w = p->w;
        tc_depthwise_taps_find(p, x, ox, first);
        for (int32_t c = 0; c < out_c;) {
            int32_t acc[4];
            const int32_t o = c, last = c + 4 < out_c ? c + 4 : out_c;
            for (; c < last; c++) {
                int32_t sum = 0;
                for (const int8_t *const *from = first; from < end; from += 4, w += 4) {
                    sum += from[0][c] * (w[0] + offset);
                    sum += from[1][c] * (w[1] + offset);
                    sum += from[2][c] * (w[2] + offset);
                    sum += from[3][c] * (w[3] + offset);
                }
                acc[c - o] = sum;
            }
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#endif
