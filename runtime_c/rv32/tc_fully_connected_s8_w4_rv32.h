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

static TC_UNUSED void tc_fully_connected_s8_w4_rv32(const tc_fully_connected_s8_w4_rv32_t *p,
                                                    tc_rv32_dense_nibbles_t *add, const int8_t *x, int8_t *y)
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
                add(x + rest, w + rest, in_c >> 2, sums);
            }
            for (int32_t i = 0; i < 7; i++) {
                sums[i] = (int32_t)((uint32_t)sums[i] - ((uint32_t)sums[i + 1] << 4) - 8 * (uint32_t)x_sum);
            }
            tc_rv32_dense_store(&p->out, sums, 8, o, y);
        }
    }
}

#endif
