/* SPDX-License-Identifier: 0BSD */
/* float32 -> int8, y[i] = clamp(round(x[i] / scale) + zero, -128, 127). No libm.
 *
 * half_even 0: halves away from zero (TensorFlow Lite's reference); 1: to even (desktop LiteRT, ONNX).
 * by_inverse 0: x / scale; 1: x * scale, where `scale` is already the inverse (desktop LiteRT).
 * Infinities saturate; NaN gives -128. x and y [n], may not overlap. No scratch.
 * Compile without -ffast-math.
 */
#ifndef TC_QUANTIZE_F32_S8_H
#define TC_QUANTIZE_F32_S8_H

#include "tc_math.h"

typedef struct {
    int32_t n;
    float scale;
    int32_t zero;
    int32_t half_even, by_inverse;
} tc_quantize_f32_s8_t;

static inline int32_t tc_quantize_round(float v, int32_t half_even)
{
    const int32_t whole = (int32_t)v;
    const float rest = v - (float)whole; /* exact: |v| is small */
    const int32_t away = rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0;

    if (half_even && (rest == 0.5f || rest == -0.5f)) {
        return whole + (whole & 1 ? away : 0);
    }
    return whole + away;
}

static void tc_quantize_f32_s8(const tc_quantize_f32_s8_t *p, const float *x, int8_t *y)
{
    const float lo = (float)(-128 - p->zero);
    const float hi = (float)(127 - p->zero);

    for (int32_t i = 0; i < p->n; i++) {
        float v = p->by_inverse ? x[i] * p->scale : x[i] / p->scale;
        v = v > lo ? v : lo; /* false for NaN */
        v = v < hi ? v : hi;
        y[i] = (int8_t)(tc_quantize_round(v, p->half_even) + p->zero);
    }
}

#endif
