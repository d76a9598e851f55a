/* SPDX-License-Identifier: 0BSD */
/* One, two or four rows of a 3x3 convolution of stride 1 by exact fast forms, from row pointers, on cores
 * without DSP instructions: tiles of mv x mh outputs, mv = 1, 2 or 4 and mh = 2 or 4, two neighbours at a
 * time.
 *
 * Rows and columns of a tile have the forms of tc_scalar_tiles.h, one row is 3 products for 3 taps. Products
 * (mv + 2) * (mh + 2), weights [out_c / 4][product][channels][4], and steps are those there; the strip is as
 * wide as two tiles, of a few channels, and lies where their sums come. Sums are 4 times the accumulator
 * (weights of one row are doubled), times 3 for each form of 4 outputs, which the inverse of 3 or 9 takes
 * out, times 2^raised.
 *
 * x: mv + 2 rows s8 [in_w][in_c], y: mv rows [out_w][out_c]; of rows with one pointer the last is left there.
 * Columns outside are p->pad. in_place: a row of y may be one of the first mv of x; then in_c is out_c,
 * pad_left 1, and the column that the next tiles need beside those that they overwrite is kept. narrow:
 * factors are int16, which all are: half of their bytes, for an instruction or more per channel, on RISC-V
 * for nothing. There they are always so, and 8 output channels share what is loaded if `lanes` is 8, else 4;
 * the other cores have registers for 4 or 2.
 *
 * scratch: words; factors [product][channels][2], sums [product][lanes][2] int32, and in place mv * in_c
 * bytes.
 */
#ifndef TC_SCALAR_TILE_ROWS_H
#define TC_SCALAR_TILE_ROWS_H

#include "tc_scalar_tiles.h"

#if TC_SCALAR_TILE_LANES == 2
#define TC_SCALAR_ROW_LANES 2
#else
#define TC_SCALAR_ROW_LANES 4
#endif

typedef void tc_scalar_tile_rows_store_t(const tc_scalar_out_t *p, int32_t *sums, int32_t o, int32_t lanes,
                                         int8_t *const *y, int32_t at, int32_t wide);

typedef struct {
    const int16_t *w;
    const int8_t *pad; /* [in_c] at least */
    tc_scalar_out_t out;
    tc_scalar_tile_rows_store_t *store;
} tc_scalar_tile_rows_t;

/* ---- products of int16 factors ---- */

/* tc_scalar_products for x int16 [product][channel][tile]. bytes: of a product in x, 4 for each channel. */
#if TC_SCALAR_TILE_LANES == 8

static TC_NAKED void tc_scalar_narrow_products(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                                      int32_t bytes TC_UNUSED, int32_t *sums TC_UNUSED)
{
/* Registers: as in tc_scalar_products. */
    __asm__ volatile(
        ".macro tc_set at, w, sum0, sum1\n"
        "lh     t2, \\at(\\w)\n"
        "mul    \\sum0, t0, t2\n"
        "mul    \\sum1, t1, t2\n"
        ".endm\n"
        ".macro tc_sum at, w, sum0, sum1\n"
        "lh     t2, \\at(\\w)\n"
        "mul    a7, t0, t2\n"
        "add    \\sum0, \\sum0, a7\n"
        "mul    a7, t1, t2\n"
        "add    \\sum1, \\sum1, a7\n"
        ".endm\n"
        ".macro tc_channel do, from, at\n"
        "lh     t0, \\from(a0)\n"
        "lh     t1, \\from+2(a0)\n"
        "\\do \\at, a1, s0, s1\n"
        "\\do \\at+2, a1, s2, s3\n"
        "\\do \\at+4, a1, s4, s5\n"
        "\\do \\at+6, a1, s6, s7\n"
        "\\do \\at, a4, s8, s9\n"
        "\\do \\at+2, a4, s10, s11\n"
        "\\do \\at+4, a4, t3, t4\n"
        "\\do \\at+6, a4, t5, t6\n"
        ".endm\n"
        ".macro tc_channels do\n"
        "tc_channel \\do, 0, 0\n"
        "tc_channel tc_sum, 4, 8\n"
        "tc_channel tc_sum, 8, 16\n"
        "tc_channel tc_sum, 12, 24\n"
        "addi   a0, a0, 16\n"
        "addi   a1, a1, 32\n"
        "addi   a4, a4, 32\n"
        ".endm\n"
        "addi   sp, sp, -48\n"
        "sw     s0, 0(sp)\n"
        "sw     s1, 4(sp)\n"
        "sw     s2, 8(sp)\n"
        "sw     s3, 12(sp)\n"
        "sw     s4, 16(sp)\n"
        "sw     s5, 20(sp)\n"
        "sw     s6, 24(sp)\n"
        "sw     s7, 28(sp)\n"
        "sw     s8, 32(sp)\n"
        "sw     s9, 36(sp)\n"
        "sw     s10, 40(sp)\n"
        "sw     s11, 44(sp)\n"
        "mv     a5, a3\n"
        "sub    a4, a3, a0\n"
        "add    a4, a4, a4\n"
        "add    a4, a4, a1\n"
        "1:\n"
        "add    a6, a0, a2\n"
        "tc_channels tc_set\n"
        "beq    a0, a6, 3f\n"
        "2:\n"
        "tc_channels tc_sum\n"
        "bne    a0, a6, 2b\n"
        "3:\n"
        "sw     s0, 0(a3)\n"
        "sw     s1, 4(a3)\n"
        "sw     s2, 8(a3)\n"
        "sw     s3, 12(a3)\n"
        "sw     s4, 16(a3)\n"
        "sw     s5, 20(a3)\n"
        "sw     s6, 24(a3)\n"
        "sw     s7, 28(a3)\n"
        "sw     s8, 32(a3)\n"
        "sw     s9, 36(a3)\n"
        "sw     s10, 40(a3)\n"
        "sw     s11, 44(a3)\n"
        "sw     t3, 48(a3)\n"
        "sw     t4, 52(a3)\n"
        "sw     t5, 56(a3)\n"
        "sw     t6, 60(a3)\n"
        "addi   a3, a3, 64\n"
        "bne    a0, a5, 1b\n"
        "lw     s0, 0(sp)\n"
        "lw     s1, 4(sp)\n"
        "lw     s2, 8(sp)\n"
        "lw     s3, 12(sp)\n"
        "lw     s4, 16(sp)\n"
        "lw     s5, 20(sp)\n"
        "lw     s6, 24(sp)\n"
        "lw     s7, 28(sp)\n"
        "lw     s8, 32(sp)\n"
        "lw     s9, 36(sp)\n"
        "lw     s10, 40(sp)\n"
        "lw     s11, 44(sp)\n"
        "addi   sp, sp, 48\n"
        "ret\n"
        ".purgem tc_set\n"
        ".purgem tc_sum\n"
        ".purgem tc_channel\n"
        ".purgem tc_channels\n");
}

/* The same for four output channels. a0 x, a1 weights, a2 bytes, a3 sums, a5 end of x, a6 end of the product,
 * a7 a product; sums in a4, t3-t6, s0-s2. */
static TC_NAKED void tc_scalar_narrow_products4(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                                       int32_t bytes TC_UNUSED, int32_t *sums TC_UNUSED)
{
    __asm__ volatile(
        ".macro tc_set at, sum0, sum1\n"
        "lh     t2, \\at(a1)\n"
        "mul    \\sum0, t0, t2\n"
        "mul    \\sum1, t1, t2\n"
        ".endm\n"
        ".macro tc_sum at, sum0, sum1\n"
        "lh     t2, \\at(a1)\n"
        "mul    a7, t0, t2\n"
        "add    \\sum0, \\sum0, a7\n"
        "mul    a7, t1, t2\n"
        "add    \\sum1, \\sum1, a7\n"
        ".endm\n"
        ".macro tc_channel do, from, at\n"
        "lh     t0, \\from(a0)\n"
        "lh     t1, \\from+2(a0)\n"
        "\\do \\at, a4, t3\n"
        "\\do \\at+2, t4, t5\n"
        "\\do \\at+4, t6, s0\n"
        "\\do \\at+6, s1, s2\n"
        ".endm\n"
        ".macro tc_channels do\n"
        "tc_channel \\do, 0, 0\n"
        "tc_channel tc_sum, 4, 8\n"
        "tc_channel tc_sum, 8, 16\n"
        "tc_channel tc_sum, 12, 24\n"
        "addi   a0, a0, 16\n"
        "addi   a1, a1, 32\n"
        ".endm\n"
        "addi   sp, sp, -16\n"
        "sw     s0, 0(sp)\n"
        "sw     s1, 4(sp)\n"
        "sw     s2, 8(sp)\n"
        "mv     a5, a3\n"
        "1:\n"
        "add    a6, a0, a2\n"
        "tc_channels tc_set\n"
        "beq    a0, a6, 3f\n"
        "2:\n"
        "tc_channels tc_sum\n"
        "bne    a0, a6, 2b\n"
        "3:\n"
        "sw     a4, 0(a3)\n"
        "sw     t3, 4(a3)\n"
        "sw     t4, 8(a3)\n"
        "sw     t5, 12(a3)\n"
        "sw     t6, 16(a3)\n"
        "sw     s0, 20(a3)\n"
        "sw     s1, 24(a3)\n"
        "sw     s2, 28(a3)\n"
        "addi   a3, a3, 32\n"
        "bne    a0, a5, 1b\n"
        "lw     s0, 0(sp)\n"
        "lw     s1, 4(sp)\n"
        "lw     s2, 8(sp)\n"
        "addi   sp, sp, 16\n"
        "ret\n"
        ".purgem tc_set\n"
        ".purgem tc_sum\n"
        ".purgem tc_channel\n"
        ".purgem tc_channels\n");
}

#elif TC_SCALAR_THUMB2

static TC_NAKED void tc_scalar_narrow_products(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                                      int32_t bytes TC_UNUSED, int32_t *sums TC_UNUSED)
{
/* Registers and frame: as in tc_scalar_products. */
#define TC_SCALAR_SET(w0, w1, w2, w3)                                              \
    "ldrsh  lr, [r1" w0 "\n"                                                       \
    "mul    r4, lr, r3\n"                                                          \
    "mul    r5, lr, r12\n"                                                         \
    "ldrsh  lr, [r1, #" w1 "]\n"                                                   \
    "mul    r6, lr, r3\n"                                                          \
    "mul    r7, lr, r12\n"                                                         \
    "ldrsh  lr, [r1, #" w2 "]\n"                                                   \
    "mul    r8, lr, r3\n"                                                          \
    "mul    r9, lr, r12\n"                                                         \
    "ldrsh  lr, [r1, #" w3 "]\n"                                                   \
    "mul    r10, lr, r3\n"                                                         \
    "mul    r11, lr, r12\n"
#define TC_SCALAR_SUM(w0, w1, w2, w3)                                              \
    "ldrsh  lr, [r1" w0 "\n"                                                       \
    "mla    r4, lr, r3, r4\n"                                                      \
    "mla    r5, lr, r12, r5\n"                                                     \
    "ldrsh  lr, [r1, #" w1 "]\n"                                                   \
    "mla    r6, lr, r3, r6\n"                                                      \
    "mla    r7, lr, r12, r7\n"                                                     \
    "ldrsh  lr, [r1, #" w2 "]\n"                                                   \
    "mla    r8, lr, r3, r8\n"                                                      \
    "mla    r9, lr, r12, r9\n"                                                     \
    "ldrsh  lr, [r1, #" w3 "]\n"                                                   \
    "mla    r10, lr, r3, r10\n"                                                    \
    "mla    r11, lr, r12, r11\n"
#define TC_SCALAR_PAIR(x0, x1)                                                     \
    "ldrsh  r3, [r0" x0 "\n"                                                       \
    "ldrsh  r12, [r0, #" x1 "]\n"
#define TC_SCALAR_MORE                                                             \
    TC_SCALAR_PAIR(", #-12]", "-10") TC_SCALAR_SUM(", #-24]", "-22", "-20", "-18") \
    TC_SCALAR_PAIR(", #-8]", "-6") TC_SCALAR_SUM(", #-16]", "-14", "-12", "-10")   \
    TC_SCALAR_PAIR(", #-4]", "-2") TC_SCALAR_SUM(", #-8]", "-6", "-4", "-2")
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "sub    sp, sp, #12\n"
        "lsr    r2, r2, #4\n"
        "subs   r2, r2, #1\n"
        "strd   r2, r3, [sp]\n"
        "str    r3, [sp, #8]\n"
        ".p2align 2\n"
        "1:\n"
        TC_SCALAR_PAIR("], #16", "-14")
        TC_SCALAR_SET("], #32", "-30", "-28", "-26")
        TC_SCALAR_MORE
        "ldr    r2, [sp]\n"
        "cmp    r2, #0\n"
        "beq    3f\n"
        ".p2align 2\n"
        "2:\n"
        TC_SCALAR_PAIR("], #16", "-14")
        TC_SCALAR_SUM("], #32", "-30", "-28", "-26")
        TC_SCALAR_MORE
        "subs   r2, r2, #1\n"
        "bne    2b\n"
        "3:\n"
        "ldrd   r3, r12, [sp, #4]\n"
        "stm    r3!, {r4-r11}\n"
        "str    r3, [sp, #4]\n"
        "cmp    r0, r12\n"
        "bne.w  1b\n"
        "add    sp, sp, #12\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SCALAR_SET
#undef TC_SCALAR_SUM
#undef TC_SCALAR_PAIR
#undef TC_SCALAR_MORE
}

#elif TC_SCALAR_THUMB1

static TC_NAKED void tc_scalar_narrow_products(const int16_t *x TC_UNUSED, const int16_t *w TC_UNUSED,
                                                      int32_t bytes TC_UNUSED, int32_t *sums TC_UNUSED)
{
/* A word has a channel's factors of two tiles, another one the weights of two lanes. The sums in r8-r11, r12
 * end of the product, lr bytes. Frame: sums, end of x. */
#define TC_SCALAR_LOAD(x, w)                                                       \
    "ldr    r3, [r0, #" x "]\n"                                                    \
    "sxth   r2, r3\n"                                                              \
    "asrs   r3, r3, #16\n"                                                         \
    "ldr    r5, [r1, #" w "]\n"                                                    \
    "sxth   r4, r5\n"                                                              \
    "asrs   r5, r5, #16\n"                                                         \
    "mov    r6, r4\n"                                                              \
    "muls   r6, r2, r6\n"                                                          \
    "muls   r4, r3, r4\n"                                                          \
    "muls   r2, r5, r2\n"                                                          \
    "muls   r3, r5, r3\n"
#define TC_SCALAR_SET                                                              \
    TC_SCALAR_LOAD("0", "0")                                                       \
    "mov    r8, r6\n"                                                              \
    "mov    r9, r4\n"                                                              \
    "mov    r10, r2\n"                                                             \
    "mov    r11, r3\n"
#define TC_SCALAR_SUM(x, w)                                                        \
    TC_SCALAR_LOAD(x, w)                                                           \
    "add    r8, r6\n"                                                              \
    "add    r9, r4\n"                                                              \
    "add    r10, r2\n"                                                             \
    "add    r11, r3\n"
#define TC_SCALAR_MORE                                                             \
    TC_SCALAR_SUM("4", "8") TC_SCALAR_SUM("8", "16") TC_SCALAR_SUM("12", "24")     \
    "adds   r0, #16\n"                                                             \
    "adds   r1, #32\n"                                                             \
    "cmp    r0, r12\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r7, lr}\n"
        "mov    r4, r8\n"
        "mov    r5, r9\n"
        "mov    r6, r10\n"
        "mov    r7, r11\n"
        "push   {r4-r7}\n"
        "sub    sp, #8\n"
        "str    r3, [sp]\n"
        "str    r3, [sp, #4]\n"
        "mov    lr, r2\n"
        "1:\n"
        "mov    r4, lr\n"
        "adds   r4, r4, r0\n"
        "mov    r12, r4\n"
        TC_SCALAR_SET TC_SCALAR_MORE
        "beq    3f\n"
        "2:\n"
        TC_SCALAR_SUM("0", "0") TC_SCALAR_MORE
        "bne    2b\n"
        "3:\n"
        "mov    r2, r8\n"
        "mov    r3, r9\n"
        "mov    r4, r10\n"
        "mov    r5, r11\n"
        "ldr    r6, [sp]\n"
        "stmia  r6!, {r2-r5}\n"
        "str    r6, [sp]\n"
        "ldr    r6, [sp, #4]\n"
        "cmp    r0, r6\n"
        "beq    4f\n"
        "b      1b\n"
        "4:\n"
        "add    sp, #8\n"
        "pop    {r4-r7}\n"
        "mov    r8, r4\n"
        "mov    r9, r5\n"
        "mov    r10, r6\n"
        "mov    r11, r7\n"
        "pop    {r4-r7, pc}\n");
#undef TC_SCALAR_LOAD
#undef TC_SCALAR_SET
#undef TC_SCALAR_SUM
#undef TC_SCALAR_MORE
}

#else

static TC_UNUSED void tc_scalar_narrow_products(const int16_t *x, const int16_t *w, int32_t bytes,
                                                int32_t *sums)
{
    for (const int16_t *const end = (const int16_t *)(const void *)sums; x < end; sums += 8) {
        uint32_t total[8];
        tc_clear((int32_t *)total, 8);
        for (const int16_t *const stop = x + bytes / 2; x < stop; x += 2, w += 4) {
            for (int32_t i = 0; i < 4; i++) {
                total[2 * i] += (uint32_t)x[0] * (uint32_t)w[i];
                total[2 * i + 1] += (uint32_t)x[1] * (uint32_t)w[i];
            }
        }
        for (int32_t i = 0; i < 8; i++) {
            sums[i] = (int32_t)total[i];
        }
    }
}

#endif

/* ---- the input's side ---- */

/* One column of `count` channels, from mv + 2 rows -> strip [channel][row][column]; mv: a literal. */
TC_INLINE void tc_scalar_tile_rows_column(int32_t mv, const int8_t *const *x, int32_t count, int32_t columns,
                                          int16_t *to)
{
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = mv > 1 ? x[3] : x0, *x4 = mv == 4 ? x[4] : x0;
    const int8_t *x5 = mv == 4 ? x[5] : x0;
    for (const int8_t *const end = x0 + count; x0 < end; to += (mv + 2) * columns) {
        const int32_t from[6] = {*x0++, *x1++, *x2++, mv > 1 ? *x3++ : 0, mv == 4 ? *x4++ : 0,
            mv == 4 ? *x5++ : 0};
        int32_t t[6] = {from[0], from[1], from[2], 0, 0, 0};
        if (mv > 1) tc_scalar_tiles_input(mv, from, t);
        to[0] = (int16_t)t[0];
        to[columns] = (int16_t)t[1];
        to[2 * columns] = (int16_t)t[2];
        if (mv > 1) to[3 * columns] = (int16_t)t[3];
        if (mv == 4) {
            to[4 * columns] = (int16_t)t[4];
            to[5 * columns] = (int16_t)t[5];
        }
    }
}

/* A factor to place `at` of int32, or of int16 ones. */
TC_INLINE void tc_scalar_tile_rows_put(void *to, int32_t at, int32_t value, int32_t narrow)
{
    if (narrow) {
        ((int16_t *)to)[at] = (int16_t)value;
    } else {
        ((int32_t *)to)[at] = value;
    }
}

/* The strip of `count` channels -> factors of two tiles, of which product 0 of the first channel is at place
 * `first`; mv, mh, narrow: literals. */
TC_INLINE void tc_scalar_tile_rows_factors(int32_t mv, int32_t mh, int32_t narrow, const int16_t *strip,
                                           int32_t count, int32_t channels, void *to, int32_t first)
{
    const int32_t step = 2 * channels;
    for (const int32_t end = first + 2 * count; first < end; first += 2) {
        int32_t place = first;
        for (int32_t i = 0; i < mv + 2; i++, strip += 2 * mh + 2, place += (mh + 2) * step) {
            for (int32_t tile = 0; tile < 2; tile++) {
                const int16_t *const x = strip + tile * mh;
                const int32_t from[6] = {x[0], x[1], x[2], x[3], mh == 4 ? x[4] : 0, mh == 4 ? x[5] : 0};
                int32_t t[6];
                tc_scalar_tiles_input(mh, from, t);
                tc_scalar_tile_rows_put(to, place + tile, t[0], narrow);
                tc_scalar_tile_rows_put(to, place + step + tile, t[1], narrow);
                tc_scalar_tile_rows_put(to, place + 2 * step + tile, t[2], narrow);
                tc_scalar_tile_rows_put(to, place + 3 * step + tile, t[3], narrow);
                if (mh == 4) {
                    tc_scalar_tile_rows_put(to, place + 4 * step + tile, t[4], narrow);
                    tc_scalar_tile_rows_put(to, place + 5 * step + tile, t[5], narrow);
                }
            }
        }
    }
}

/* ---- the output's side ---- */

/* A sum that is 4 * 2^raised times an accumulator, times 3 for each form of 4 outputs -> int8; mv, mh,
 * finish, clamp: literals. */
TC_INLINE int8_t tc_scalar_tile_rows_output(int32_t mv, int32_t mh, const tc_scalar_out_t *p,
                                            tc_scalar_channel_t channel, uint32_t sum, int32_t raised,
                                            int32_t finish, int32_t clamp)
{
    if (mv == 4 || mh == 2) return tc_scalar_tiles_output(mh, p, channel, sum, raised, finish, clamp);
    /* 1/3 modulo 2^32 */
    return tc_scalar_tiles_output(2, p, channel, sum * 2863311531u, raised, finish, clamp);
}

/* sums [product][lane][2] of one tile and the channels from o on -> `wide` columns of the rows y from byte
 * `at` on; changes sums.
 * apart: words from a product to the next. mv, mh, apart, finish, clamp: literals. */
TC_INLINE void tc_scalar_tile_rows_store(int32_t mv, int32_t mh, int32_t apart, const tc_scalar_out_t *p,
                                         int32_t *sums, int32_t o, int32_t lanes, int8_t *const *y,
                                         int32_t at, int32_t wide, int32_t finish, int32_t clamp)
{
    const int32_t nh = mh + 2, step = p->out_c;
    for (const int32_t *const end = sums + 2 * lanes; sums < end; sums += 2, o++) {
        const tc_scalar_channel_t channel = tc_scalar_channel(p, o, finish);
        uint32_t rows[4 * 6], *const products = (uint32_t *)(void *)sums;
        products[((mv > 1 ? nh : 0) + 1) * apart] += (uint32_t)(p->bias[o] * (mv == 4 ? 36 : mh == 4 ? 12
            : 4));
        for (int32_t j = 0; j < nh; j++) {
            const uint32_t *const down = products + j * apart;
            if (mv == 1) {
                rows[j] = down[0] + down[nh * apart] + down[2 * nh * apart];
            } else {
                tc_scalar_tiles_sums(mv, down, nh * apart, rows + j, nh);
            }
        }
        for (int32_t a = 0; a < mv; a++) {
            const int32_t raised = mv == 4 && a < 2 ? 2 - a : 0;
            int8_t *const to = y[a] + at + o;
            uint32_t sum[4];
            tc_scalar_tiles_sums(mh, rows + a * nh, 1, sum, 1);
            to[0] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[0], raised + (mh == 4 ? 2 : 0), finish,
                                               clamp);
            if (wide == 1) continue;
            to[step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[1], raised + (mh == 4), finish,
                                                  clamp);
            if (mh == 2 || wide == 2) continue;
            to[2 * step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[2], raised, finish, clamp);
            if (wide == 3) continue;
            to[3 * step] = tc_scalar_tile_rows_output(mv, mh, p, channel, sum[3], raised, finish, clamp);
        }
    }
}

/* How many output channels share what is loaded, where the scratch has room for 4 or 8 of them. */
#if TC_SCALAR_TILE_LANES == 8
#define TC_SCALAR_LANES_OF(lanes) (lanes)
#else
#define TC_SCALAR_LANES_OF(lanes) TC_SCALAR_ROW_LANES
#endif

#define TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, way, finish, clamp)                  \
    static TC_UNUSED void tc_scalar_tile_rows##mv##x##mh##x##most##_##way(  \
        const tc_scalar_out_t *p, int32_t *sums, int32_t o, int32_t lanes, int8_t *const *y, int32_t at,     \
            int32_t wide)                                                                                    \
    {                                                                              \
        tc_scalar_tile_rows_store(mv, mh, 2 * TC_SCALAR_LANES_OF(most), p, sums, o, lanes, y, at, wide,      \
                                  finish, clamp);                                                            \
    }
#define TC_SCALAR_TILE_ROWS_WAYS(mv, mh, most)                                     \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 0, 0, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 1, 1, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 1c, 1, 1)                                \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 2, 2, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 2c, 2, 1)                                \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 3, 3, 0)                                 \
    TC_SCALAR_TILE_ROWS_WAY(mv, mh, most, 3c, 3, 1)
TC_SCALAR_TILE_ROWS_WAYS(1, 2, 4)
TC_SCALAR_TILE_ROWS_WAYS(1, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(2, 2, 4)
TC_SCALAR_TILE_ROWS_WAYS(2, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(4, 4, 4)
TC_SCALAR_TILE_ROWS_WAYS(1, 2, 8)
TC_SCALAR_TILE_ROWS_WAYS(1, 4, 8)
TC_SCALAR_TILE_ROWS_WAYS(2, 2, 8)
TC_SCALAR_TILE_ROWS_WAYS(2, 4, 8)
TC_SCALAR_TILE_ROWS_WAYS(4, 4, 8)
#undef TC_SCALAR_TILE_ROWS_WAYS
#undef TC_SCALAR_TILE_ROWS_WAY

/* ---- the rows ---- */

/* The products of as many output channels as TC_SCALAR_LANES_OF(lanes) says. */
TC_INLINE void tc_scalar_tile_rows_products(int32_t lanes, int32_t narrow, const void *factors,
                                            const int16_t *w, int32_t channels, int32_t *sums)
{
#if TC_SCALAR_TILE_LANES == 8
    if (lanes == 4) {
        tc_scalar_narrow_products4((const int16_t *)factors, w, 4 * channels, sums);
        return;
    }
#else
    (void)lanes;
#endif
    if (narrow) {
        tc_scalar_narrow_products((const int16_t *)factors, w, 4 * channels, sums);
    } else {
        tc_scalar_products((const int32_t *)factors, w, 8 * channels, sums);
    }
}

/* All but the pointers are literals. */
TC_INLINE void tc_scalar_tile_rows_run(const tc_scalar_tile_rows_t *p, const int8_t *const *x,
                                       int8_t *const *y, void *scratch, int32_t mv, int32_t mh, int32_t lanes,
                                       int32_t narrow, int32_t in_place, int32_t in_w, int32_t in_c,
                                       int32_t out_w, int32_t out_c, int32_t pad_left)
{
    const int32_t nv = mv + 2, count = nv * (mh + 2), channels = (in_c + 3) & ~3, columns = 2 * mh + 2;
    /* channels of a strip; of products */
    const int32_t part = 2 * lanes, at_a_time = TC_SCALAR_LANES_OF(lanes);
    const int32_t halves = narrow || TC_SCALAR_TILE_LANES == 8;
    int32_t *const sums = (int32_t *)scratch + (halves ? 1 : 2) * count * channels;
    int16_t *const strip = (int16_t *)(void *)sums;
    int8_t *const kept = (int8_t *)(sums + 2 * lanes * count);

    for (int32_t ox = 0; ox < out_w; ox += 2 * mh) {
        const int32_t wide = out_w - ox;
        for (int32_t first = 0; first < channels; first += part) {
            const int32_t rest = channels - first < part ? channels - first : part;
            const int32_t real = in_c - first < rest ? in_c - first : rest;
            for (int32_t column = 0; column < columns; column++) {
                const int32_t ix = ox - pad_left + column;
                const int8_t *rows[6];
                for (int32_t i = 0; i < nv; i++) {
                    if (ix < 0 || ix >= in_w) {
                        rows[i] = p->pad;
                    } else {
                        rows[i] = (in_place && column == 0 &&
                                   i < mv ? kept + i * in_c : x[i] + ix * in_c) + first;
                    }
                }
                tc_scalar_tile_rows_column(mv, rows, real, columns, strip + column);
            }
            tc_scalar_tile_rows_factors(mv, mh, halves, strip, rest, channels, scratch, 2 * first);
        }
        if (in_place && wide > 2 * mh) {
            for (int32_t i = 0; i < mv; i++) {
                const int8_t *const from = x[i] + (ox + 2 * mh - 1) * in_c;
                for (int32_t c = 0; c < in_c; c++) {
                    kept[i * in_c + c] = from[c];
                }
            }
        }
        for (int32_t o = 0; o < out_c; o += at_a_time) {
            const int32_t these = out_c - o < at_a_time ? out_c - o : at_a_time;
            const int16_t *const w = p->w + (o >> 2) * (4 * count * channels) + (o & 3);
            tc_scalar_tile_rows_products(lanes, halves, scratch, w, channels, sums);
            p->store(&p->out, sums, o, these, y, ox * out_c, wide < mh ? wide : mh);
            if (wide > mh) {
                p->store(&p->out, sums + 1, o, these, y, (ox + mh) * out_c, wide < 2 * mh ? wide - mh : mh);
            }
        }
    }
}

#endif
