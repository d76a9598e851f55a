/* SPDX-License-Identifier: 0BSD */
/* Fully connected, int8, one scale per output, one row of inputs. Same bytes as tc_fully_connected_s8.
 *
 * x [in_c]. y [out_c], may not overlap x. bias contains -x_zero * sum(w[o]).
 * The inputs are unpacked in registers, again for every eight outputs. No scratch. Of more rows each is a
 * pixel of tc_conv2d_1x1_s8_dsp.
 * w: for every eight outputs `units` times eight words for tc_dsp_dot_bytes_1x8, then for each remaining
 * output `units` words of plain int8; units = in_c / 4 rounded up, the last one's missing inputs have weight
 * 0; one dot product takes at most `chunk` of them (tc_dsp.h).
 */
#ifndef TC_FULLY_CONNECTED_S8_ROW_DSP_H
#define TC_FULLY_CONNECTED_S8_ROW_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_out_t out;
    const int32_t *w;
    int32_t units, chunk, in_c;
} tc_fully_connected_s8_row_dsp_t;

/* acc as tc_dsp_dot_bytes_1x8, in chunks, and then the inputs that do not fill a unit. */
static inline void tc_fully_connected_s8_row_dot(const tc_fully_connected_s8_row_dsp_t *p, const int8_t *x,
                                                 const int32_t *w, const int32_t *bias, int32_t *acc)
{
    const int32_t whole = p->in_c / 4;
    for (int32_t unit = 0; unit < whole; unit += p->chunk) {
        const int32_t left = whole - unit;
        tc_dsp_dot_bytes_1x8(x + 4 * unit, w + 8 * unit, left < p->chunk ? left : p->chunk, unit ? acc : bias,
                             acc);
    }
    if (whole < p->units) {
        const int32_t tail = tc_load_tail(x + 4 * whole, p->in_c % 4);
        tc_dsp_dot_bytes_1x8((const int8_t *)&tail, w + 8 * whole, 1, whole ? acc : bias, acc);
    }
}

/* acc + the four inputs of a word times weights of one output. */
static inline int32_t tc_fully_connected_s8_row_four(int32_t x, int32_t w, int32_t acc)
{
    return tc_smlad(tc_sxtb16_ror8(x), tc_sxtb16_ror8(w), tc_smlad(tc_sxtb16(x), tc_sxtb16(w), acc));
}

static TC_ALONE void tc_fully_connected_s8_row_dsp(const tc_fully_connected_s8_row_dsp_t *p, const int8_t *x,
                                                   int8_t *y)
{
    const int32_t blocked = p->out.out_c / 8 * 8, whole = p->in_c / 4 * 4;
    const int32_t *w = p->w;

    for (int32_t o = 0; o < blocked; o += 8, w += 8 * p->units) {
        int32_t acc[8];
        tc_fully_connected_s8_row_dot(p, x, w, p->out.bias + o, acc);
        tc_dsp_outputs(&p->out, p->out.scale + 3 * o, acc, 8, y + o);
    }
    for (int32_t o = blocked; o < p->out.out_c; o++) {
        int32_t acc = p->out.bias[o];
        for (int32_t i = 0; i < whole; i += 4) {
            acc = tc_fully_connected_s8_row_four(tc_load4(x + i), *w++, acc);
        }
        if (whole < p->in_c) {
            acc = tc_fully_connected_s8_row_four(tc_load_tail(x + whole, p->in_c - whole), *w++, acc);
        }
        y[o] = tc_dsp_output(&p->out, o, acc);
    }
}

#endif
