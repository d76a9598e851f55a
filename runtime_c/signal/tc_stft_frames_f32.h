/* SPDX-License-Identifier: 0BSD */
/* Spectra of overlapping frames of float32 samples by the transform of int32: what tc_stft_f32.h and
 * tc_stft_mixed_f32.h share.
 *
 * u = w * x, rounded; with the largest |u| below 2^e, k = bits - e, at most 126: points are u * 2^k, rounded
 * to integers, which stay within what the transform takes. Its bins are float32 times 2^-k * 2 half / radix.
 * Where a u is infinite or not a number, no bin of the frame is a number.
 */
#ifndef TC_STFT_FRAMES_F32_H
#define TC_STFT_FRAMES_F32_H

#include "tc_mixed_taper.h"

typedef struct {
    const float *window; /* [2 half] */
    const int32_t *twiddles, *split; /* of the transform */
    int32_t half, radix, bits; /* 2^bits: what the transform takes at most */
    int32_t step, frames, lines, line; /* frames of a line, and its samples */
} tc_stft_t;

static inline int32_t tc_stft_bits_of(float v)
{
    union { float f; int32_t i; } both;
    both.f = v;
    return both.i & 0x7fffffff;
}

/* 2^k of k in [-126, 127]. */
static inline float tc_stft_power(int32_t k)
{
    return tc_float_of((k + 127) << 23);
}

/* k of a frame; 128 where it has no numbers. */
static inline int32_t tc_stft_scale(const tc_stft_t *p, const float *x)
{
    const float *const w = p->window;
    int32_t top = 0, k;

    for (int32_t i = 0; i < 2 * p->half; i++) {
        const int32_t size = tc_stft_bits_of(w[i] * x[i]);
        top = size > top ? size : top;
    }
    k = p->bits - ((top >> 23) - 126);
    return top >= 0x7f800000 ? 128 : k > 126 ? 126 : k;
}

static inline int32_t tc_stft_point(float w, float x, float up)
{
    const float v = w * x * up; /* the second product is exact, unless it is nearly 0 */
    return (int32_t)(v < 0.0f ? v - 0.5f : v + 0.5f);
}

/* order: of the points, or 0: that of their bits reversed. */
static inline void tc_stft_taper(const tc_stft_t *p, const float *x, int32_t k, const uint16_t *order,
                                 int32_t *y)
{
    const float up = tc_stft_power(k), *w = p->window;
    const uint32_t next = 0x80000000u / (uint32_t)p->half * 2;

    for (int32_t i = 0; i < p->half; i++, x += 2, w += 2) {
        int32_t *const to = order != 0 ? y + order[i] : tc_taper_place(y, (uint32_t)i * next);
        to[0] = tc_stft_point(w[0], x[0], up);
        to[1] = tc_stft_point(w[1], x[1], up);
    }
}

static inline void tc_stft_put(const tc_stft_t *p, const int32_t *bins, int32_t k, float *y)
{
    const float down = tc_stft_power(-k) * (float)(2 * p->half / p->radix);

    for (int32_t i = 0; i < 2 * p->half + 2; i++) {
        y[i] = (float)bins[i] * down;
    }
}

static inline void tc_stft_nothing(const tc_stft_t *p, float *y)
{
    for (int32_t i = 0; i < 2 * p->half + 2; i++) {
        y[i] = tc_float_of(0x7fc00000);
    }
}

#endif
