/* SPDX-License-Identifier: 0BSD */
/* Fully connected with int4 weights on RV32IM (tc_rv32_dense.h).
 *
 * w [out_c / 8][in_c]: a word holds the weights of an input for eight outputs, W = d0 + 16 d1 + ... + 16^7
 * d7: d7 the weight, the others the weight + 8. The sums are taken of W >> 0, W >> 4, ... , and neighbours
 * subtracted in the end; 8 times the sum of the inputs goes as well. All exact modulo 2^32.
 */
#ifndef TC_FULLY_CONNECTED_S8_W4_RV32_H
#define TC_FULLY_CONNECTED_S8_W4_RV32_H

#include "tc_rv32_dense.h"

typedef struct {
    const int32_t *w;
    tc_rv32_out_t out;
    int32_t batch, in_c;
} tc_fully_connected_s8_w4_rv32_t;

/* x [4 * fours] times w [4 * fours] >> 0, 4, ... 28, added to sums [8]. fours > 0. */
#if TC_RV32_ASM

#define TC_RV32_NEXT(sum) "srai   t1, t1, 4\n" TC_RV32_DENSE_ADD(sum)
#define TC_RV32_TAP(at, w)                                                         \
    "lb     t0, " at "(a0)\n"                                                      \
    "lw     t1, " w "(a1)\n"                                                       \
    TC_RV32_DENSE_ADD("t3") TC_RV32_NEXT("t4") TC_RV32_NEXT("t5") TC_RV32_NEXT("t6") \
    TC_RV32_NEXT("a4") TC_RV32_NEXT("a5") TC_RV32_NEXT("a6") TC_RV32_NEXT("a7")

static TC_NAKED void tc_rv32_dense_nibbles8(const int8_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                                 int32_t fours TC_UNUSED, int32_t *sums TC_UNUSED)
{
    __asm__ volatile(
        TC_RV32_DENSE_ENTER
        TC_RV32_TAP("0", "0")
        TC_RV32_TAP("1", "4")
        TC_RV32_TAP("2", "8")
        TC_RV32_TAP("3", "12")
        TC_RV32_DENSE_LEAVE("16"));
}

#undef TC_RV32_TAP
#undef TC_RV32_NEXT

#else

static TC_UNUSED void tc_rv32_dense_nibbles8(const int8_t *x, const int32_t *w, int32_t fours, int32_t *sums)
{
    for (const int8_t *const end = x + 4 * fours; x < end; x++, w++) {
        for (int32_t i = 0; i < 8; i++) {
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(int32_t)*x * (uint32_t)(*w >> 4 * i));
        }
    }
}

#endif

static TC_UNUSED void tc_fully_connected_s8_w4_rv32(const tc_fully_connected_s8_w4_rv32_t *p, const int8_t *x,
                                                    int8_t *y)
{
    const int32_t out_c = p->out.out_c, in_c = p->in_c, rest = in_c & 3;

    for (int32_t b = 0; b < p->batch; b++, x += in_c, y += out_c) {
        const int32_t *w = p->w;
        int32_t x_sum = 0;
        for (int32_t i = 0; i < in_c; i++) {
            x_sum += x[i];
        }
        for (int32_t o = 0; o < out_c; o += 8, w += in_c) {
            int32_t sums[8];
            for (int32_t i = 0; i < 8; i++) {
                uint32_t sum = 0;
                for (int32_t tap = 0; tap < rest; tap++) {
                    sum += (uint32_t)(int32_t)x[tap] * (uint32_t)(w[tap] >> 4 * i);
                }
                sums[i] = (int32_t)sum;
            }
            if (in_c > 3) {
                tc_rv32_dense_nibbles8(x + rest, w + rest, in_c >> 2, sums);
            }
            for (int32_t i = 0; i < 7; i++) {
                sums[i] = (int32_t)((uint32_t)sums[i] - ((uint32_t)sums[i + 1] << 4) - 8 * (uint32_t)x_sum);
            }
            tc_rv32_dense_store(&p->out, sums, o, y);
        }
    }
}

#endif
