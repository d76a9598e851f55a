/* SPDX-License-Identifier: 0BSD */
/* Product of two int8 tensors with the DSP extension: tc_mul_lines.h, with the function of the shift. */
#ifndef TC_MUL_S8_DSP_H
#define TC_MUL_S8_DSP_H

#include "tc_mul_lines.h"

static void tc_mul_s8_dsp(const tc_mul_s8_dsp_t *p, const int8_t *x0, const int8_t *x1, int8_t *y)
{
    tc_mul_lines(p, x0, x1, y, p->line);
}

#endif
