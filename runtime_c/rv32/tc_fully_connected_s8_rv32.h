/* SPDX-License-Identifier: 0BSD */
/* Fully connected with int8 weights on RV32IM (tc_rv32_dense.h), most outputs in twelves or eights.
 *
 * w: of so many outputs [inputs][words of four], of the rest as many words as it takes; inputs: of whole
 * segments, no weights beyond the last output and input. fixes: of tc_rv32_dense_out_t. out.channels: a
 * multiple of four of them.
 */
#ifndef TC_FULLY_CONNECTED_S8_RV32_H
#define TC_FULLY_CONNECTED_S8_RV32_H

#include "tc_rv32_dense.h"

typedef struct {
    const int32_t *w;
    const int16_t *fixes;
    tc_rv32_out_t out;
    int32_t batch, in_c;
} tc_fully_connected_s8_rv32_t;

/* starts: room for two words of each segment. held: room for the inputs of whole segments, or NULL where in_c
 * is so many. */
static TC_UNUSED void tc_fully_connected_s8_rv32(const tc_fully_connected_s8_rv32_t *p,
                                                 const tc_rv32_segments_t *segments, const int8_t *x,
                                                 int8_t *y, uint32_t *starts, int8_t *held)
{
    const int32_t out_c = p->out.out_c, inputs = segments->count * segments->inputs;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int32_t *w = p->w;
        tc_rv32_dense_out_t out = {p->fixes, p->out.scale, p->out.y_min, p->out.y_max};
        const int8_t *from = x;
        if (held) {
            for (int32_t i = 0; i < inputs; i++) {
                held[i] = i < p->in_c ? x[i] : 0;
            }
            from = held;
        }
        for (int32_t s = 0, i = 0; s < segments->count; s++) {
            int32_t sum = 0;
            for (const int32_t end = i + segments->inputs; i < end; i += 4) { /* 8 or 16 */
                sum += from[i] + from[i + 1] + from[i + 2] + from[i + 3];
            }
            const uint32_t odd = 0x8000u - ((uint32_t)sum << 7);
            starts[2 * s] = odd + (odd << 8) + (odd << 16) + 0x80000000u;
            starts[2 * s + 1] = odd;
        }
        for (int32_t tile = 0, o = 0; o < out_c; tile++) {
            const int32_t lanes = segments->tiles[tile].lanes, count = segments->tiles[tile].count;
            const int32_t made = count * lanes;
            int8_t last[12], *const to = out_c - o < made ? last : y + o;
            segments->tiles[tile].make(from, w, segments->count, starts, count, p->out.channels + 4 * o, to,
                                       &out);
            for (int32_t i = o; to == last && i < out_c; i++) {
                y[i] = last[i - o];
            }
            w += made / 4 * inputs;
            o += made;
        }
    }
}

#endif
