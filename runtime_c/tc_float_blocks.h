/* SPDX-License-Identifier: 0BSD */
/* Blocks of float32 sums of products: what the functions in assembly take, and the same in plain C.
 *
 * For each of `count` groups of pixels: acc[pixel][output] = bias[output]; for each of k_h rows that is
 * there, for its taps in order, acc = fma(x, w, acc); then the clipped accumulators go to y. Rows are
 * pointers to input rows, null outside the image. A row has turn * turns + rest taps that are read, `offset`
 * bytes from its begin for the first pixel, `step` bytes more for each that follows. Weights lie tap by tap,
 * those of all outputs of the block side by side; `skip` bytes lie behind the taps that are read, `row` bytes
 * from a row's first weight to the next row's. y: `y_step` bytes from pixel to pixel. Of depthwise layers
 * each output reads an input of its own, and the next tap lies `tap` bytes on.
 */
#ifndef TC_FLOAT_BLOCKS_H
#define TC_FLOAT_BLOCKS_H

#include "tc_float.h"

#if TC_GNU && defined(__ARM_FEATURE_FMA) && defined(__thumb2__) && !defined(__ARM_BIG_ENDIAN)
#define TC_VFMA_ASM 1
#else
#define TC_VFMA_ASM 0
#endif

typedef struct {
    const float *w, *bias;
    const int8_t *const *rows;
    float *y;
    int32_t k_h, offset, step, count, turns, rest, skip, row, y_step, tap;
    float six; /* 6.0f */
} tc_block_f32_t;

#if !TC_VFMA_ASM

static inline void tc_block_row_f32(const tc_block_f32_t *p, const float *x, const float *w, float *acc,
                                    int32_t outputs, int32_t pixels, int32_t turn)
{
    for (int32_t tap = 0; tap < turn * p->turns + p->rest; tap++, w += outputs) {
        for (int32_t i = 0; i < pixels * outputs; i++) {
            acc[i] = tc_fma(x[i / outputs * (p->step / 4) + tap], w[i % outputs], acc[i]);
        }
    }
}

static inline void tc_channels_row_f32(const tc_block_f32_t *p, const float *x, const float *w, float *acc,
                                       int32_t outputs, int32_t pixels, int32_t turn)
{
    for (int32_t tap = 0; tap < turn * p->turns; tap++, w += outputs, x += p->tap / 4) {
        for (int32_t i = 0; i < pixels * outputs; i++) {
            acc[i] = tc_fma(x[i / outputs * (p->step / 4) + i % outputs], w[i % outputs], acc[i]);
        }
    }
}

static inline void tc_block_any_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels, int32_t turn,
                                    int32_t relu, int32_t six, int32_t depthwise)
{
    float *y = p->y, acc[16];

    for (int32_t group = 0; group < p->count; group++) {
        const int32_t at = p->offset + group * pixels * p->step;
        for (int32_t i = 0; i < pixels * outputs; i++) {
            acc[i] = p->bias[i % outputs];
        }
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            const float *w = p->w + ky * (p->row / 4);
            if (!p->rows[ky]) continue;
            if (depthwise) {
                tc_channels_row_f32(p, (const float *)(const void *)(p->rows[ky] + at), w, acc, outputs,
                                    pixels, turn);
            } else {
                tc_block_row_f32(p, (const float *)(const void *)(p->rows[ky] + at), w, acc, outputs, pixels,
                                 turn);
            }
        }
        for (int32_t i = 0; i < pixels * outputs; i++) {
            const float v = relu && acc[i] <= 0.0f ? 0.0f : six && acc[i] >= p->six ? p->six : acc[i];
            y[i / outputs * (p->y_step / 4) + i % outputs] = v;
        }
        y += pixels * (p->y_step / 4);
    }
}

static TC_UNUSED void tc_block_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels, int32_t turn,
                                   int32_t relu, int32_t six)
{
    tc_block_any_f32(p, outputs, pixels, turn, relu, six, 0);
}

static TC_UNUSED void tc_channels_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels, int32_t turn,
                                      int32_t relu, int32_t six)
{
    tc_block_any_f32(p, outputs, pixels, turn, relu, six, 1);
}

#endif

#endif
