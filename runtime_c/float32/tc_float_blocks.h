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
 *
 * Functions with Helium keep y_at, offset_at and left while they work. Its products take subnormal numbers
 * for zero; `flushed` is not 0 where that happened, and then the functions here make the same outputs once
 * more. FPSCR's bits IDC and UFC are cleared.
 */
#ifndef TC_FLOAT_BLOCKS_H
#define TC_FLOAT_BLOCKS_H

#include "tc_float.h"

#if TC_GNU && defined(__ARM_FEATURE_FMA) && defined(__thumb2__) && !defined(__ARM_BIG_ENDIAN)
#define TC_VFMA_ASM 1
#else
#define TC_VFMA_ASM 0
#endif

#if TC_VFMA_ASM && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#define TC_MVE_FLOAT_ASM 1
#else
#define TC_MVE_FLOAT_ASM 0
#endif

#define TC_BLOCK_SUMS 24 /* outputs times pixels, at most */

typedef struct {
    const float *w, *bias;
    const int8_t *const *rows;
    int32_t k_h;
    float *y;
    int32_t offset, count, turns, rest, skip, row, y_step, tap;
    float six; /* 6.0f */
    float *y_at;
    int32_t offset_at, step, left, flushed;
} tc_block_f32_t;

static inline void tc_block_row_f32(const float *x, const float *w, float *acc,
                                    int32_t outputs, int32_t taps)
{
    for (int32_t tap = 0; tap < taps; tap++, w += outputs) {
        for (int32_t i = 0; i < outputs; i++) {
            acc[i] = tc_fma(x[tap], w[i], acc[i]);
        }
    }
}

static inline void tc_channels_row_f32(const tc_block_f32_t *p, const float *x, const float *w, float *acc,
                                       int32_t outputs, int32_t taps)
{
    for (int32_t tap = 0; tap < taps; tap++, w += outputs, x += p->tap / 4) {
        for (int32_t i = 0; i < outputs; i++) {
            acc[i] = tc_fma(x[i], w[i], acc[i]);
        }
    }
}

static inline void tc_block_any_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels, int32_t turn,
                                    int32_t relu, int32_t six, int32_t depthwise)
{
    const int32_t taps = turn * p->turns + p->rest;
    float *y = p->y, acc[TC_BLOCK_SUMS];

    for (int32_t pixel = 0; pixel < p->count * pixels; pixel++, y += p->y_step / 4) {
        for (int32_t i = 0; i < outputs; i++) {
            acc[i] = p->bias[i];
        }
        for (int32_t ky = 0; ky < p->k_h; ky++) {
            const float *w = p->w + ky * (p->row / 4);
            const int8_t *row = p->rows[ky];
            if (!row) continue;
            row += p->offset + pixel * p->step;
            if (depthwise) {
                tc_channels_row_f32(p, (const float *)(const void *)row, w, acc, outputs, taps);
            } else {
                tc_block_row_f32((const float *)(const void *)row, w, acc, outputs, taps);
            }
        }
        for (int32_t i = 0; i < outputs; i++) {
            y[i] = relu && acc[i] <= 0.0f ? 0.0f : six && acc[i] >= p->six ? p->six : acc[i];
        }
    }
}

static TC_UNUSED TC_NOINLINE void tc_block_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels,
                                               int32_t turn, int32_t relu, int32_t six)
{
    tc_block_any_f32(p, outputs, pixels, turn, relu, six, 0);
}

static TC_UNUSED TC_NOINLINE void tc_channels_f32(const tc_block_f32_t *p, int32_t outputs, int32_t pixels,
                                                  int32_t turn, int32_t relu, int32_t six)
{
    tc_block_any_f32(p, outputs, pixels, turn, relu, six, 1);
}

/* Blocks of depthwise layers with Helium: four channels at a time, `turns` times, `rest` bytes from the first
 * four to the second, 16 to each that follows; their weights one after the other, four for each tap, and from
 * a four's last row `skip` bytes to the next's. rows and k_h: only what is there. Windows of a row: that of
 * the first pixel begins in column `start`, which may be outside like any other.
 */
typedef struct {
    int32_t pixels, start, stride, k_w, in_w, relu, six;
} tc_lanes_f32_t;

/* Rows that are in the image, of k_h: those that are not are the first ones and the last ones. */
static TC_UNUSED void tc_lanes_rows(tc_block_f32_t *p, const float *w, const int8_t *const *x, int32_t k_h)
{
    int32_t top = 0, count = k_h;

    while (count > 0 && !x[top]) {
        top++;
        count--;
    }
    while (count > 0 && !x[top + count - 1]) {
        count--;
    }
    p->w = w + top * (p->row / 4);
    p->rows = x + top;
    p->k_h = count;
    p->skip = (k_h - count) * p->row;
}

static inline void tc_lanes_pixel_f32(const tc_block_f32_t *p, const tc_lanes_f32_t *lanes, const float *w,
                                      int32_t start, int32_t channel, float *acc)
{
    for (int32_t ky = 0; ky < p->k_h; ky++) {
        const float *row = (const float *)(const void *)p->rows[ky] + channel;
        for (int32_t kx = 0; kx < lanes->k_w; kx++, w += 4) {
            const int32_t column = start + kx;
            if (column < 0 || column >= lanes->in_w) continue;
            for (int32_t i = 0; i < 4; i++) {
                acc[i] = tc_fma(row[column * (p->tap / 4) + i], w[i], acc[i]);
            }
        }
    }
}

static TC_UNUSED TC_NOINLINE void tc_lanes_f32(const tc_block_f32_t *p, const tc_lanes_f32_t *lanes)
{
    const int32_t four = (p->k_h * p->row + p->skip) / 4; /* weights of four channels */

    for (int32_t pixel = 0; pixel < p->count * lanes->pixels; pixel++) {
        for (int32_t turn = 0; turn < p->turns; turn++) {
            const int32_t channel = turn > 0 ? p->rest / 4 + 4 * (turn - 1) : 0;
            const float *b = p->bias + channel;
            float *y = p->y + pixel * (p->y_step / 4) + channel, acc[4] = {b[0], b[1], b[2], b[3]};
            tc_lanes_pixel_f32(p, lanes, p->w + turn * four, lanes->start + pixel * lanes->stride, channel,
                               acc);
            for (int32_t i = 0; i < 4; i++) {
                const float most = lanes->six && acc[i] >= p->six ? p->six : acc[i];
                y[i] = lanes->relu && acc[i] <= 0.0f ? 0.0f : most;
            }
        }
    }
}

#endif
