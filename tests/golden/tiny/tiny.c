/* SPDX-License-Identifier: 0BSD */
/* tiny.c: tiny.tflite as a C99 library, written by tinyc 0.0.0 for cortex-m0plus; do not edit.
 *
 *   model       tiny.tflite, sha256 abababababababababababababababababababababababababababababababab
 *   options     the defaults
 *   numerics    tflm: the integers of TensorFlow Lite Micro
 *   input 0     'x<2a>/evil' int8 [1,5,4,1]  real = 0.05 * (q + 3)
 *   output 0    'y' int8 [1,3]  real = 0.00390625 * (q + 128)
 *   arena       32 bytes; with this order of steps, at least 32 are needed
 *   constants   353 bytes, 10 arrays
 *   work        114 multiply-accumulates
 *   code        not compiled when this was written
 *   stack       not measured yet
 *   time        not counted yet
 *   proved      nothing yet: `tinyc verify` compares every output byte with the integer reference
 *
 * To call it: fill tiny_input_0(&arena), tiny_run(&arena), read tiny_output_0(&arena); tiny.h has the code.
 *
 *   step  operator                  kernel                                  output                    MACs
 *         arena          value                    layer
 *      0  conv2d + relu             tc_conv2d_s8                            int8 [1,3,2,2]             108
 *         [20, 32)       0.07 * (q + 128)         'layer/0' node 0
 *      1  mean                      tc_mean_s8                              int8 [1,2]                   0
 *         [4, 6)         0.06 * (q + 120)         'layer/1' node 1
 *      2  fully_connected           tc_fully_connected_s8                   int8 [1,3]                   6
 *         [0, 3)         0.2 * (q - 5)            'layer/2' node 2
 *      3  softmax                   tc_softmax_s8                           int8 [1,3]                   0
 *         [0, 3)         0.00390625 * (q + 128)   'layer/3' node 3
 */
#include "tiny.h"

#include "tc_begin.h"
#include "tc_conv2d_s8.h"
#include "tc_rows.h"
#include "tc_mean_s8.h"
#include "tc_fully_connected_s8.h"
#include "tc_softmax_s8.h"
#include "tiny_weights.h"

#ifndef TINY_AFTER_STEP
#define TINY_AFTER_STEP(step, arena) ((void)0)
#endif

/* Step 0: conv2d + relu.
 *
 *   layer    'layer/0' node 0 (CONV_2D)
 *   kernel   tc_conv2d_s8
 *   x        int8 [1,5,4,1]  arena [0, 20)  0.05 * (q + 3)
 *   y        int8 [1,3,2,2]  arena [20, 32)  0.07 * (q + 128)
 *   work     108 multiply-accumulates
 */
static const tc_conv2d_s8_t tiny_step_0_params = {
    .w = tiny_step_0_conv2d_weights,
    .bias = tiny_step_0_conv2d_bias,
    .mult = tiny_step_0_conv2d_multipliers,
    .shift = tiny_step_0_conv2d_shifts,
    .y_zero = -128,
    .y_min = -128,
    .y_max = 127,
    .rounds = 2,
    .pad = tiny_pad_m3,
    .in_w = 4,
    .in_c = 1,
    .out_w = 2,
    .k_h = 3,
    .k_w = 3,
    .stride_w = 2,
    .pad_left = 1,
    .dilation_w = 1,
    .out_c = 2,
    .groups = 1,
};

static TC_NOINLINE void tiny_step_0_conv2d(uint8_t *arena)
{
    const int8_t *x = (const int8_t *)(arena + 0);
    int8_t *y = (int8_t *)(arena + 20);
    const int8_t *rows[3];

    for (int32_t r = 0; r < 3; r++) {
        tc_rows(rows, x, r * 2 - 1, 1, 3, 5, 4, tiny_pad_m3);
        tc_conv2d_s8(&tiny_step_0_params, rows, y + r * 4);
    }
}

/* Step 1: mean.
 *
 *   layer    'layer/1' node 1 (MEAN)
 *   kernel   tc_mean_s8
 *   x        int8 [1,3,2,2]  arena [20, 32)  0.07 * (q + 128)
 *   y        int8 [1,2]  arena [4, 6)  0.06 * (q + 120)
 */
static const tc_mean_s8_t tiny_step_1_params = {
    .outer = 1,
    .n = 6,
    .inner = 2,
    .x_zero = -128,
    .mult = 835132530,
    .shift = -1,
    .y_zero = -120,
    .rounds = 2,
    .zero_first = 0,
};

static TC_NOINLINE void tiny_step_1_mean(uint8_t *arena)
{
    const int8_t *x = (const int8_t *)(arena + 20);
    int8_t *y = (int8_t *)(arena + 4);
    tc_mean_s8(&tiny_step_1_params, x, y);
}

/* Step 2: fully_connected.
 *
 *   layer    'layer/2' node 2 (FULLY_CONNECTED)
 *   kernel   tc_fully_connected_s8
 *   x        int8 [1,2]  arena [4, 6)  0.06 * (q + 120)
 *   y        int8 [1,3]  arena [0, 3)  0.2 * (q - 5)
 *   work     6 multiply-accumulates
 */
static const tc_fully_connected_s8_t tiny_step_2_params = {
    .w = tiny_step_2_fully_connected_weights,
    .bias = tiny_step_2_fully_connected_bias,
    .mult = tiny_step_2_fully_connected_multipliers,
    .shift = tiny_step_2_fully_connected_shifts,
    .y_zero = 5,
    .y_min = -128,
    .y_max = 127,
    .rounds = 2,
    .batch = 1,
    .in_c = 2,
    .out_c = 3,
};

static TC_NOINLINE void tiny_step_2_fully_connected(uint8_t *arena)
{
    const int8_t *x = (const int8_t *)(arena + 4);
    int8_t *y = (int8_t *)(arena + 0);
    tc_fully_connected_s8(&tiny_step_2_params, x, y);
}

/* Step 3: softmax.
 *
 *   layer    'layer/3' node 3 (SOFTMAX)
 *   kernel   tc_softmax_s8
 *   x        int8 [1,3]  arena [0, 3)  0.2 * (q - 5)
 *   y        int8 [1,3]  arena [0, 3)  0.00390625 * (q + 128)
 */
static const tc_softmax_s8_t tiny_step_3_params = {
    .exps = tiny_step_3_softmax_exp_table,
    .exp_count = 70,
    .outer = 1,
    .depth = 3,
};

static TC_NOINLINE void tiny_step_3_softmax(uint8_t *arena)
{
    const int8_t *x = (const int8_t *)(arena + 0);
    int8_t *y = (int8_t *)(arena + 0);
    tc_softmax_s8(&tiny_step_3_params, x, y);
}

TC_ENTRY int tiny_run(void *arena)
{
    uint8_t *base = (uint8_t *)arena;

    if (arena == NULL || (uintptr_t)arena % TINY_ARENA_ALIGN != 0) {
        return TINY_BAD_ARENA;
    }
    tiny_step_0_conv2d(base);
    TINY_AFTER_STEP(0, base);
    tiny_step_1_mean(base);
    TINY_AFTER_STEP(1, base);
    tiny_step_2_fully_connected(base);
    TINY_AFTER_STEP(2, base);
    tiny_step_3_softmax(base);
    TINY_AFTER_STEP(3, base);
    return TINY_OK;
}

int8_t *tiny_input_0(void *arena)
{
    return (int8_t *)((uint8_t *)arena + 0);
}

const int8_t *tiny_output_0(const void *arena)
{
    return (const int8_t *)((const uint8_t *)arena + 0);
}

const char *tiny_version(void)
{
    return "tiny abababababab tflm tinyc 0.0.0";
}

/* What a linked program holds, for `tinyc verify --elf`: numbers in its symbol table, no memory. */
#if TC_GNU && defined(__ELF__)
__asm__(
    ".globl tiny_tinyc_digest\n"
    ".set tiny_tinyc_digest, 0xac0c4743\n"
    ".globl tiny_tinyc_arena\n"
    ".set tiny_tinyc_arena, 32\n");
#endif

#include "tc_end.h"
