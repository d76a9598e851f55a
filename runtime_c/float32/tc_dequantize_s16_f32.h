/* SPDX-License-Identifier: 0BSD */
/* int16 -> float32, y[i] = scale * (x[i] - zero). x and y [n], may not overlap. No scratch. */
#ifndef TC_DEQUANTIZE_S16_F32_H
#define TC_DEQUANTIZE_S16_F32_H

#include "tc_math.h"

typedef struct {
    int32_t n;
    float scale;
    int32_t zero;
} tc_dequantize_s16_f32_t;

static void tc_dequantize_s16_f32(const tc_dequantize_s16_f32_t *p, const int16_t *x, float *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = p->scale * (float)(x[i] - p->zero);
    }
}

#endif
