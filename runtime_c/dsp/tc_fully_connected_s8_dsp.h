/* SPDX-License-Identifier: 0BSD */
/* Fully connected, int8, one scale per output. Same bytes as tc_fully_connected_s8.
 *
 * x [batch][in_c]. y [batch][out_c]. bias contains -x_zero * sum(w[o]).
 * A row of x is read before its outputs are written, so y may overlap x where these end below the next row.
 * w: for every eight outputs `units` times eight words for tc_dsp_dot_1x8, then for each remaining output
 * `units` words of plain int8; units = in_c / 4 rounded up; one dot product takes at most `chunk` of them
 * (tc_dsp.h).
 * scratch: 8 * units bytes, aligned to 4.
 */
#ifndef TC_FULLY_CONNECTED_S8_DSP_H
#define TC_FULLY_CONNECTED_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_out_t out;
    const int32_t *w;
    int32_t units, chunk, batch, in_c;
} tc_fully_connected_s8_dsp_t;

/* acc as tc_dsp_dot_1x8, in chunks. */
static inline void tc_fully_connected_s8_dsp_dot(const tc_fully_connected_s8_dsp_t *p, const int32_t *xs,
                                                 const int32_t *w, const int32_t *bias, int32_t *acc)
{
    static const int32_t zeros[8];
    int32_t part[8], units = p->units;
    tc_dsp_dot_1x8(xs, w, units < p->chunk ? units : p->chunk, bias, acc);
    while ((units -= p->chunk) > 0) {
        xs += 2 * p->chunk;
        w += 8 * p->chunk;
        tc_dsp_dot_1x8(xs, w, units < p->chunk ? units : p->chunk, zeros, part);
        for (int32_t i = 0; i < 8; i++) {
            acc[i] += part[i];
        }
    }
}

static TC_ALONE void tc_fully_connected_s8_dsp(const tc_fully_connected_s8_dsp_t *p, const int8_t *x,
                                               int8_t *y, void *scratch)
{
    const int32_t blocked = p->out.out_c / 8 * 8;
    int32_t *xs = (int32_t *)scratch;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += p->out.out_c) {
        const int32_t *w = p->w;
        tc_dsp_unpack_1(x, p->in_c, xs);
        for (int32_t o = 0; o < blocked; o += 8, w += 8 * p->units) {
            int32_t acc[8];
            tc_fully_connected_s8_dsp_dot(p, xs, w, p->out.bias + o, acc);
            tc_dsp_outputs(&p->out, o, acc, 8, y + o);
        }
        for (int32_t o = blocked; o < p->out.out_c; o++, w += p->units) {
            int32_t acc = p->out.bias[o];
            for (int32_t i = 0; i < p->units; i++) {
                acc = tc_smlad(xs[2 * i], tc_sxtb16(w[i]), acc);
                acc = tc_smlad(xs[2 * i + 1], tc_sxtb16_ror8(w[i]), acc);
            }
            y[o] = tc_dsp_output(&p->out, o, acc);
        }
    }
}

#endif
