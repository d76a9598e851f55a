/* SPDX-License-Identifier: 0BSD */
/* tiny_weights.h: constants of tiny.tflite, written by tinyc 0.0.0; do not edit.
 * Included by tiny.c only.
 *
 * Equal contents are stored once. An array is named after the steps that read it and what is in it. Axes are
 * in brackets, the last one fastest: out_c and in_c are channels, k_h and k_w a kernel's height and width.
 * Weights in the model are [out_c,k_h,k_w,in_c] for conv2d, [k_h,k_w,out_c] for depthwise_conv2d and
 * [out_c,in_c] for fully_connected; an image is [height][width][channels]. A stream is what one kernel reads,
 * in the very order in which it reads it: the header that is named there tells the order.
 */
#ifndef TINY_WEIGHTS_H
#define TINY_WEIGHTS_H

#include <stdint.h>

/* Kernels read int8 constants a word at a time. */
#if TC_GNU
#define TINY_ALIGNED4 __attribute__((aligned(4)))
#else
#define TINY_ALIGNED4
#endif

/* Step 0, conv2d 'layer/0' node 0: weights int8 [2,3,3,1]. Stored as [2,3,3,1]:
 * [out_c][k_h][k_w][in_c/groups]. */
static const int8_t tiny_step_0_conv2d_weights[18] TINY_ALIGNED4 = {
    -127, -90, -53, -16, 21, 58, 95, -123, -86, -49, -12, 25, 62, 99, -119, -82, -45, -8,
};

/* Step 0, conv2d 'layer/0' node 0: biases, in which the zero points are. Stored as [2]: [out_c]. */
static const int32_t tiny_step_0_conv2d_bias[2] = {
    -843, -464,
};

/* Step 0, conv2d 'layer/0' node 0: multipliers of the requantization. Stored as [2]: [out_c]. */
static const int32_t tiny_step_0_conv2d_multipliers[2] = {
    1963413621, 1963413621,
};

/* Step 0, conv2d 'layer/0' node 0: shifts of the requantization. Stored as [2]: [out_c]. */
static const int8_t tiny_step_0_conv2d_shifts[2] TINY_ALIGNED4 = {
    -7, -6,
};

/* Zero points (-3) in place of what lies outside an image. Stored as [4]: [in_w][in_c] of x_zero. */
static const int8_t tiny_pad_m3[4] TINY_ALIGNED4 = {
    -3, -3, -3, -3,
};

/* Step 2, fully_connected 'layer/2' node 2: weights int8 [3,2]. Stored as [3,2]: [out_c][in_c]. */
static const int8_t tiny_step_2_fully_connected_weights[6] TINY_ALIGNED4 = {
    100, -50, -7, 127, 1, 0,
};

/* Step 2, fully_connected 'layer/2' node 2: biases, in which the zero points are. Stored as [3]: [out_c]. */
static const int32_t tiny_step_2_fully_connected_bias[3] = {
    6003, 14402, 121,
};

/* Step 2, fully_connected 'layer/2' node 2: multipliers of the requantization. Stored as [3]: [out_c]. */
static const int32_t tiny_step_2_fully_connected_multipliers[3] = {
    1236950581, 1236950581, 1236950581,
};

/* Step 2, fully_connected 'layer/2' node 2: shifts of the requantization. Stored as [3]: [out_c]. */
static const int8_t tiny_step_2_fully_connected_shifts[3] TINY_ALIGNED4 = {
    -6, -6, -6,
};

/* Step 3, softmax 'layer/3' node 3: table of exponentials. Stored as [70]: [steps below the maximum] Q0.31.
 */
static const int32_t tiny_step_3_softmax_exp_table[70] = {
    2147483647, 1758210936, 1439501330, 1178564022, 964926589, 790015308, 646809656, 529562945, 433569474,
    354976654, 290630390, 237947975, 194815320, 159501296, 130588613, 106916946, 87536168, 71668551, 58677248,
    48040866, 39332546, 32202757, 26365387, 21586153, 17673247, 14469635, 11846732, 9699284, 7941102, 6501624,
    5323081, 4358169, 3568167, 2921368, 2391814, 1958252, 1603281, 1312655, 1074711, 879899, 720401, 589814,
    482899, 395364, 323697, 265021, 216981, 177649, 145446, 119081, 97496, 79823, 65353, 53507, 43808, 35867,
    29365, 24042, 19684, 16116, 13195, 10803, 8845, 7241, 5929, 4854, 3974, 3254, 2664, 2181,
};

#endif
