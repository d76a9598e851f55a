/* SPDX-License-Identifier: 0BSD */
/* Fully connected on RV32IM (tc_rv32.h), eight outputs at a time; int8 and int4 weights differ in the sums.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * The constants of `out` stand for bias, factors and zero points. x [batch][in_c]. y [batch][out_c], may not
 * overlap x.
 */
#ifndef TC_RV32_DENSE_H
#define TC_RV32_DENSE_H

#include "tc_rv32.h"

#if TC_RV32_ASM

/* Registers: a0 inputs, a1 weights, a2 end of the inputs, t0 an input, t1 a weight, t2 a product; the sums in
 * t3-t6 and a4-a7. */
#define TC_RV32_DENSE_ENTER                                                        \
    "slli   a2, a2, 2\n"                                                           \
    "add    a2, a2, a0\n"                                                          \
    "lw     t3, 0(a3)\n"                                        \
    "lw     t4, 4(a3)\n"                                        \
    "lw     t5, 8(a3)\n"                                        \
    "lw     t6, 12(a3)\n"                                        \
    "lw     a4, 16(a3)\n"                                        \
    "lw     a5, 20(a3)\n"                                        \
    "lw     a6, 24(a3)\n"                                        \
    "lw     a7, 28(a3)\n"                                        \
    "1:\n"

#define TC_RV32_DENSE_LEAVE(step)                                                  \
    "addi   a0, a0, 4\n"                                                           \
    "addi   a1, a1, " step "\n"                                                    \
    "bne    a0, a2, 1b\n"                                                          \
    "sw     t3, 0(a3)\n"                                        \
    "sw     t4, 4(a3)\n"                                        \
    "sw     t5, 8(a3)\n"                                        \
    "sw     t6, 12(a3)\n"                                        \
    "sw     a4, 16(a3)\n"                                        \
    "sw     a5, 20(a3)\n"                                        \
    "sw     a6, 24(a3)\n"                                        \
    "sw     a7, 28(a3)\n"                                        \
    "ret\n"

#define TC_RV32_DENSE_ADD(sum) "mul    t2, t0, t1\n" "add    " sum ", " sum ", t2\n"

#endif

/* Eight sums -> y; sign: a literal. */
TC_INLINE void tc_rv32_dense_store_by(const tc_rv32_out_t *p, const int32_t *sums, int32_t o, int8_t *y,
                                      int32_t sign)
{
    const int32_t scale = p->scale, least = p->y_min, greatest = p->y_max;
    const tc_rv32_channel_t *channel = (const tc_rv32_channel_t *)(const void *)(p->channels + 4 * o);
    const int32_t *const end = sums + (p->out_c - o < 8 ? p->out_c - o : 8);
    for (y += o; sums < end; channel++) {
        *y++ = (int8_t)tc_rv32_output(*sums++, scale, channel, sign, least, greatest);
    }
}

static TC_UNUSED void tc_rv32_dense_store(const tc_rv32_out_t *p, const int32_t *sums, int32_t o, int8_t *y)
{
    if (p->sign) {
        tc_rv32_dense_store_by(p, sums, o, y, 1);
    } else {
        tc_rv32_dense_store_by(p, sums, o, y, 0);
    }
}

#endif
