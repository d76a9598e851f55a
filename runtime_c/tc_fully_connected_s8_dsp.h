/* Fully connected, int8, one scale per output. Same bytes as tc_fully_connected_s8.
 *
 * x [batch][in_c]. y [batch][out_c], may not overlap x. bias contains -x_zero * sum(w[o]).
 * w: for every eight outputs `units` times eight words for tc_dsp_dot_1x8, then for each remaining output `units` words
 * of plain int8; units = in_c / 4 rounded up; one dot product takes at most `chunk` of them (tc_dsp.h).
 * scratch: 8 * units bytes, aligned to 4.
 */
#ifndef TC_FULLY_CONNECTED_S8_DSP_H
#define TC_FULLY_CONNECTED_S8_DSP_H

#include "tc_dsp.h"

typedef struct {
    tc_dsp_matrix_t m;
    int32_t batch, in_c;
} tc_fully_connected_s8_dsp_t;

/* acc as tc_dsp_dot_1x8, in chunks. */
static inline void tc_fully_connected_s8_dsp_dot(const tc_dsp_matrix_t *p, const int32_t *xs, const int32_t *w,
                                                 const int32_t *bias, int32_t *acc)
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

static void tc_fully_connected_s8_dsp(const tc_fully_connected_s8_dsp_t *p, const int8_t *x, int8_t *y, void *scratch)
{
    const tc_dsp_matrix_t *m = &p->m;
    const int32_t blocked = m->out.out_c / 8 * 8;
    int32_t *xs = (int32_t *)scratch;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c) {
        const int32_t *w = m->w;
        int32_t acc[8];
        tc_dsp_unpack_1(x, p->in_c, xs);
        for (int32_t o = 0; o < blocked; o += 8, w += 8 * m->units, y += 8) {
            tc_fully_connected_s8_dsp_dot(m, xs, w, m->out.bias + o, acc);
            tc_dsp_finish_1(&m->out, o, acc, 8, y);
        }
        for (int32_t o = blocked; o < m->out.out_c; o++, w += m->units, y++) {
            acc[0] = m->out.bias[o];
            for (int32_t i = 0; i < m->units; i++) {
                acc[0] = tc_smlad(xs[2 * i], tc_sxtb16(w[i]), acc[0]);
                acc[0] = tc_smlad(xs[2 * i + 1], tc_sxtb16_ror8(w[i]), acc[0]);
            }
            tc_dsp_finish_1(&m->out, o, acc, 1, y);
        }
    }
}

#endif
