/* SPDX-License-Identifier: 0BSD */
/* Attention over int8 with a softmax in fixed point and the DSP extension: the bytes of tc_attention_s8.
 * scratch: tc_attention_dsp.h, with the exponentials of a row, int32, before the rows of scores.
 *
 * Shares less their zero point, which is -128, are what the softmax has before it takes 128 off: no bytes are
 * made of them on the way. The table has f = 2 * e - 2^31 for an exponential e in Q0.31, which makes all of a
 * share but its shift one SMMLAR:
 *
 *   2^19 * f / 2^32, rounded, is round(e / 2^12) - 2^18
 *   2 * (scale * e + 2^30) = scale * f + (scale + 1) * 2^31
 *
 * scale is even, since it was doubled at last, but where 1 / sum(e) saturates. SMMLAR adds 2^31 too much
 * there, which the compiler has proved to change no share of this table.
 */
#ifndef TC_ATTENTION_S8_DSP_H
#define TC_ATTENTION_S8_DSP_H

#include "tc_attention_dsp.h"
#include "tc_softmax_many_s8.h"

typedef struct {
    tc_attention_t at;
    tc_softmax_many_s8_t softmax; /* with a table of 2 * e - 2^31 */
    tc_matmul_requant_t product, context;
} tc_attention_s8_dsp_t;

/* A share of f is the high word of scale * f + start * 2^32 + 2^31, shifted, at most 255. */
typedef struct {
    const int32_t *f;
    int32_t *xs;
    int32_t scale, start, shift;
} tc_attention_s8_row_t;

#if TC_DSP_ASM

typedef char tc_attention_s8_row_reads[__builtin_offsetof(tc_attention_s8_row_t, shift) == 16 ? 1 : -1];

/* f[x[c]] into row, up to end, four at a time; the sum of 2^19 * f / 2^32. */
static TC_NAKED int32_t tc_attention_s8_sum(const int32_t *f TC_UNUSED, const int8_t *x TC_UNUSED,
                                            int32_t *row TC_UNUSED, const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified             \n"
        "push   {r4-r7, lr}          \n"
        "mov    lr, #0x80000         \n"
        "mov    r12, #0              \n"
        "1:                          \n"
        "ldrsb  r4, [r1], #1         \n"
        "ldrsb  r5, [r1], #1         \n"
        "ldrsb  r6, [r1], #1         \n"
        "ldrsb  r7, [r1], #1         \n"
        "ldr    r4, [r0, r4, lsl #2] \n"
        "ldr    r5, [r0, r5, lsl #2] \n"
        "ldr    r6, [r0, r6, lsl #2] \n"
        "ldr    r7, [r0, r7, lsl #2] \n"
        "smmlar r12, r4, lr, r12     \n"
        "smmlar r12, r5, lr, r12     \n"
        "smmlar r12, r6, lr, r12     \n"
        "smmlar r12, r7, lr, r12     \n"
        "stm    r2!, {r4-r7}         \n"
        "cmp    r2, r3               \n"
        "bne    1b                   \n"
        "mov    r0, r12              \n"
        "pop    {r4-r7, pc}          \n");
}

/* Shares of row->f, up to end, four at a time, into every other word of row->xs. */
static TC_NAKED void tc_attention_s8_fours(const tc_attention_s8_row_t *row TC_UNUSED,
                                           const int32_t *end TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified             \n"
        "push   {r4-r7, lr}          \n"
        "ldrd   r2, r3, [r0]         \n"
        "ldrd   r12, lr, [r0, #8]    \n"
        "ldr    r0, [r0, #16]        \n"
        "1:                          \n"
        "ldm    r2!, {r4-r7}         \n"
        "smmlar r4, r4, r12, lr      \n"
        "smmlar r5, r5, r12, lr      \n"
        "smmlar r6, r6, r12, lr      \n"
        "smmlar r7, r7, r12, lr      \n"
        "lsrs   r4, r0               \n"
        "lsrs   r5, r0               \n"
        "lsrs   r6, r0               \n"
        "lsrs   r7, r0               \n"
        "pkhbt  r4, r4, r6, lsl #16  \n"
        "pkhbt  r5, r5, r7, lsl #16  \n"
        "usat16 r4, #8, r4           \n"
        "usat16 r5, #8, r5           \n"
        "str    r4, [r3], #8         \n"
        "str    r5, [r3], #8         \n"
        "cmp    r2, r1               \n"
        "bne    1b                   \n"
        "pop    {r4-r7, pc}          \n");
}

#else

static inline int32_t tc_attention_s8_sum(const int32_t *f, const int8_t *x, int32_t *row, const int32_t *end)
{
    int32_t sum = 0;
    while (row != end) {
        *row = f[*x++];
        sum = tc_smmlar(*row++, 1 << 19, sum);
    }
    return sum;
}

static inline int32_t tc_attention_s8_share(const tc_attention_s8_row_t *row, int32_t f)
{
    const uint32_t share = (uint32_t)tc_smmlar(f, row->scale, row->start) >> row->shift;
    return (int32_t)(share > 255 ? 255 : share);
}

static inline void tc_attention_s8_fours(const tc_attention_s8_row_t *row, const int32_t *end)
{
    int32_t *xs = row->xs;
    for (const int32_t *f = row->f; f != end; f += 4, xs += 4) {
        xs[0] = tc_halves(tc_attention_s8_share(row, f[2]), tc_attention_s8_share(row, f[0]));
        xs[2] = tc_halves(tc_attention_s8_share(row, f[3]), tc_attention_s8_share(row, f[1]));
    }
}

#endif

/* Words of a row's exponentials: whole fours. */
static inline int32_t tc_attention_s8_words(const tc_attention_t *p)
{
    return (p->keys + 3) & ~3;
}

/* Elements beyond the last of a row count as exponentials of 0. */
static TC_UNUSED void tc_attention_s8_shares(const tc_attention_s8_dsp_t *layer, const int8_t *x,
                                             int32_t *row, int32_t *xs)
{
    const int32_t n = layer->at.keys, whole = n & ~3;
    const int32_t *f = layer->softmax.exps + 255 - tc_softmax_many_max(x, n);
    int32_t sum = 0;

    if (whole > 0) {
        sum = tc_attention_s8_sum(f, x, row, row + whole);
    }
    for (int32_t c = whole; c < tc_attention_s8_words(&layer->at); c++) {
        row[c] = c < n ? f[x[c]] : INT32_MIN;
        sum = c < n ? tc_smmlar(row[c], 1 << 19, sum) : sum;
    }
    const uint32_t total = (uint32_t)sum + ((uint32_t)n << 18);
    const int32_t headroom = tc_softmax_headroom(total);
    const int32_t scale = tc_softmax_reciprocal((int32_t)((total << headroom) - 0x80000000u));
    /* Where the total is 2^28 or more, no share is half a step: the high word has 31 bits. */
    const int32_t shift = headroom > 3 ? 35 - headroom : 31;
    const uint32_t half = headroom > 3 ? (uint32_t)1 << (shift - 1) : 0;
    const int32_t add = (int32_t)((((uint32_t)scale + 1) >> 1) + half);
    const tc_attention_s8_row_t of_row = {row, xs, scale, add, shift};
    tc_attention_s8_fours(&of_row, row + tc_attention_s8_words(&layer->at));
}

TC_ATTENTION_DSP(tc_attention_s8_dsp, tc_attention_s8_shares, tc_attention_s8_words(p))

#endif
