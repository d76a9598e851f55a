/* SPDX-License-Identifier: 0BSD */
/* Fully connected on a core without DSP instructions (tc_scalar.h), four outputs at a time.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing.
 * x [batch][in_c]. y [batch][out_c], may not overlap x. w [out_c / 4][taps][4], taps = in_c rounded up to a
 * multiple of 4, zeros beyond the last output and input. scratch: a word for each tap. acc cannot overflow:
 * the compiler bounds it.
 */
#ifndef TC_FULLY_CONNECTED_S8_SCALAR_H
#define TC_FULLY_CONNECTED_S8_SCALAR_H

#include "tc_scalar.h"
#include "tc_scalar_dense.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    int32_t batch, in_c, taps;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_fully_connected_s8_scalar_t;

static TC_UNUSED void tc_fully_connected_s8_scalar(const tc_fully_connected_s8_scalar_t *p, const int8_t *x,
                                                          int8_t *y, void *scratch)
{
    int32_t *const wide = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        for (int32_t i = 0; i < p->in_c; i++) {
            wide[i] = x[i];
        }
        for (int32_t i = p->in_c; i < p->taps; i++) {
            wide[i] = 0;
        }
        for (int32_t o = 0; o < out_c; o += 4) {
            int32_t acc[4];
            tc_scalar_dense4(wide, p->w + o * p->taps, p->taps >> 2, acc);
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#endif
