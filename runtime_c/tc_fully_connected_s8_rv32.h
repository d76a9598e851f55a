/* SPDX-License-Identifier: 0BSD */
/* Fully connected with int8 weights on RV32IM (tc_rv32_dense.h). w [out_c / 8][in_c][8], zeros beyond the
 * last output. */
#ifndef TC_FULLY_CONNECTED_S8_RV32_H
#define TC_FULLY_CONNECTED_S8_RV32_H

#include "tc_rv32_dense.h"

typedef struct {
    const int8_t *w;
    tc_rv32_out_t out;
    int32_t batch, in_c;
} tc_fully_connected_s8_rv32_t;

/* x [4 * fours] times w [4 * fours][8], added to sums [8]. fours > 0. */
#if TC_RV32_ASM

#define TC_RV32_CHANNEL(at, sum) "lb     t1, " at "(a1)\n" TC_RV32_DENSE_ADD(sum)
#define TC_RV32_TAP(at, w0, w1, w2, w3, w4, w5, w6, w7)                            \
    "lb     t0, " at "(a0)\n"                                                      \
    TC_RV32_CHANNEL(w0, "t3") TC_RV32_CHANNEL(w1, "t4") TC_RV32_CHANNEL(w2, "t5") TC_RV32_CHANNEL(w3, "t6") \
    TC_RV32_CHANNEL(w4, "a4") TC_RV32_CHANNEL(w5, "a5") TC_RV32_CHANNEL(w6, "a6") TC_RV32_CHANNEL(w7, "a7")

static TC_NAKED void tc_rv32_dense8(const int8_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                         int32_t fours TC_UNUSED, int32_t *sums TC_UNUSED)
{
    __asm__ volatile(
        TC_RV32_DENSE_ENTER
        TC_RV32_TAP("0", "0", "1", "2", "3", "4", "5", "6", "7")
        TC_RV32_TAP("1", "8", "9", "10", "11", "12", "13", "14", "15")
        TC_RV32_TAP("2", "16", "17", "18", "19", "20", "21", "22", "23")
        TC_RV32_TAP("3", "24", "25", "26", "27", "28", "29", "30", "31")
        TC_RV32_DENSE_LEAVE("32"));
}

#undef TC_RV32_TAP
#undef TC_RV32_CHANNEL

#else

static TC_UNUSED void tc_rv32_dense8(const int8_t *x, const int8_t *w, int32_t fours, int32_t *sums)
{
    for (const int8_t *const end = x + 4 * fours; x < end; x++, w += 8) {
        for (int32_t i = 0; i < 8; i++) {
            sums[i] += *x * w[i];
        }
    }
}

#endif

static TC_UNUSED void tc_fully_connected_s8_rv32(const tc_fully_connected_s8_rv32_t *p, const int8_t *x,
                                                 int8_t *y)
{
    const int32_t out_c = p->out.out_c, rest = p->in_c & 3;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int8_t *w = p->w;
        for (int32_t o = 0; o < out_c; o += 8, w += 8 * p->in_c) {
            int32_t sums[8];
            for (int32_t i = 0; i < 8; i++) {
                sums[i] = 0;
                for (int32_t tap = 0; tap < rest; tap++) {
                    sums[i] += x[tap] * w[8 * tap + i];
                }
            }
            if (p->in_c > 3) {
                tc_rv32_dense8(x + rest, w + 8 * rest, p->in_c >> 2, sums);
            }
            tc_rv32_dense_store(&p->out, sums, o, y);
        }
    }
}

#endif
