/* SPDX-License-Identifier: 0BSD */
/* tiny.h: tiny.tflite as a C99 library, written by tinyc 0.0.0 for cortex-m0plus; do not edit.
 *
 *     #include "tiny.h"
 *
 *     static tiny_arena_t arena;
 *
 *     const int8_t *infer(const float *x0)
 *     {
 *         for (int32_t i = 0; i < TINY_INPUT_0_SIZE; i++) {
 *             tiny_input_0(&arena)[i] = tiny_quantize_input_0(x0[i]);
 *         }
 *         if (tiny_run(&arena) != TINY_OK) {
 *             return NULL;
 *         }
 *         return tiny_output_0(&arena);
 *     }
 *
 * Inputs and outputs lie in the arena and share its bytes: write all inputs before every run, read the
 * outputs before the next. Between runs the arena may be used for something else. The library uses no other
 * memory than the arena and the stack. Calls on different arenas may run at the same time. Sizes are in bytes
 * where the name says BYTES, else in elements.
 *
 * The library makes no unaligned accesses, but a compiler may join accesses to neighbouring bytes into an
 * unaligned one. If your system traps those, compile with -mno-unaligned-access.
 */
#ifndef TINY_H
#define TINY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything but the stack: inputs, outputs, activations, scratch. */
#define TINY_ARENA_BYTES 32
#if defined(__GNUC__) && !defined(TC_PORTABLE)
#define TINY_ARENA_ALIGN 16
#define TINY_ALIGNED __attribute__((aligned(16)))
#elif defined(__cplusplus) && __cplusplus >= 201103L
#define TINY_ARENA_ALIGN 16
#define TINY_ALIGNED alignas(16)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TINY_ARENA_ALIGN 16
#define TINY_ALIGNED _Alignas(16)
#else /* C99 cannot ask for more; only assembly needs more, and compilers without GNU C get none */
#define TINY_ARENA_ALIGN 8
#endif

/* An arena of the right size and alignment; any other block of both will do. */
#if defined(TINY_ALIGNED)
typedef struct {
    TINY_ALIGNED uint8_t bytes[TINY_ARENA_BYTES];
} tiny_arena_t;
#else
typedef union {
    uint8_t bytes[TINY_ARENA_BYTES];
    int64_t aligned;
} tiny_arena_t;
#endif

#define TINY_INPUT_COUNT 1
#define TINY_OUTPUT_COUNT 1
#define TINY_STEP_COUNT 4

/* Return values of tiny_run. */
#define TINY_OK 0
#define TINY_BAD_ARENA 1 /* null, or not aligned to TINY_ARENA_ALIGN */

/* input 0 'x<2a>/evil': int8 [1,5,4,1], real = 0.05 * (q + 3) */
#define TINY_INPUT_0_SIZE 20
#define TINY_INPUT_0_BYTES 20
#define TINY_INPUT_0_RANK 4
#define TINY_INPUT_0_SHAPE { 1, 5, 4, 1 }
#define TINY_INPUT_0_SCALE 0.0500000007f
#define TINY_INPUT_0_ZERO_POINT (-3)
int8_t *tiny_input_0(void *arena);

/* The integer of a real value, rounded half away from zero and saturated; of NaN the least. */
static inline int8_t tiny_quantize_input_0(float real)
{
    const float lo = -125.0f, hi = 130.0f;
    float q = real / 0.0500000007f;
    q = q > lo ? q : lo;
    q = q < hi ? q : hi;
    return (int8_t)((int32_t)(q < 0.0f ? q - 0.5f : q + 0.5f) - 3);
}

/* output 0 'y': int8 [1,3], real = 0.00390625 * (q + 128) */
#define TINY_OUTPUT_0_SIZE 3
#define TINY_OUTPUT_0_BYTES 3
#define TINY_OUTPUT_0_RANK 2
#define TINY_OUTPUT_0_SHAPE { 1, 3 }
#define TINY_OUTPUT_0_SCALE 0.00390625f
#define TINY_OUTPUT_0_ZERO_POINT (-128)
const int8_t *tiny_output_0(const void *arena);

/* The real value of an output integer. */
static inline float tiny_dequantize_output_0(int8_t q)
{
    return 0.00390625f * (float)((int32_t)q + 128);
}

/* Runs the model once. Returns TINY_OK or TINY_BAD_ARENA. */
int tiny_run(void *arena);

/* Model name, first digits of its SHA-256, numerics and tinyc's version. */
const char *tiny_version(void);

/* For debuggers and test firmware: where step n leaves its (first) output in the arena. It lasts until a
 * later step takes its bytes. tiny.c calls TINY_AFTER_STEP(n, arena) after each step if that macro is
 * defined. */
#define TINY_STEP_0_OUTPUT_OFFSET 20
#define TINY_STEP_0_OUTPUT_BYTES 12
#define TINY_STEP_1_OUTPUT_OFFSET 4
#define TINY_STEP_1_OUTPUT_BYTES 2
#define TINY_STEP_2_OUTPUT_OFFSET 0
#define TINY_STEP_2_OUTPUT_BYTES 3
#define TINY_STEP_3_OUTPUT_OFFSET 0
#define TINY_STEP_3_OUTPUT_BYTES 3

#ifdef __cplusplus
}
#endif

#endif
