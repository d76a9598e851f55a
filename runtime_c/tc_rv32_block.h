/* SPDX-License-Identifier: 0BSD */
/* Convolutions on RV32IM (tc_rv32.h): three pixels and eight channels from products to bytes, without a way
 * through memory.
 *
 * A sum P1 = A + 2^10 C, P2 = B + 2^21 C is wanted times 2^11, plus the channel's start, in the product with
 * its multiplier. Then two of the three dot products need not be taken apart first: modulo 2^32, P2 * 2^11 is
 * B * 2^11, and 2 (P1 - A) is C * 2^11.
 */
#ifndef TC_RV32_BLOCK_H
#define TC_RV32_BLOCK_H

#include "tc_rv32.h"

#if TC_RV32_ASM

/* Packed taps x [4 * fours][X1, X2] times w [block][4 * fours][8] -> y [3][out_c], all whole blocks of eight
 * channels; p is `plain`. Of the products: a0 x, a1 w, a2 end of x, t0 and t1 a tap, t2 a weight, a4 a
 * product; the sums in s0-s11 and t3-t6.
 * Of the bytes: a5, a0, ra the pixels' places, a3 the channel, a6 and a7 the clamp, t0-t2 and a4 temporary.
 * second, third: bytes from a pixel to the next; 0 for one that is not there: the one before is written over
 * it.
 * Frame: 0 s0-s11, 48 ra, 52 x, 56 second, 60 third, 64 end of the channels,
 * 68 whether `fours` is odd: the loop makes two fours a turn, and begins with the second. */
static TC_NAKED void tc_rv32_blocks(const int32_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                    int32_t fours TC_UNUSED, const tc_rv32_out_t *p TC_UNUSED,
                                    int32_t blocks TC_UNUSED, int8_t *y TC_UNUSED, int32_t second TC_UNUSED,
                                    int32_t third TC_UNUSED)
{
    __asm__ volatile(
        ".macro tc_frame op, at, first:req, rest:vararg\n"
        "\\op   \\first, \\at(sp)\n"
        ".ifnb  \\rest\n"
        "tc_frame \\op, \\at + 4, \\rest\n"
        ".endif\n"
        ".endm\n"
        ".macro tc_clear first:req, rest:vararg\n"
        "li     \\first, 0\n"
        ".ifnb  \\rest\n"
        "tc_clear \\rest\n"
        ".endif\n"
        ".endm\n"
        /* one weight, from byte `at` on, and those behind it */
        ".macro tc_products at, p1:req, p2:req, rest:vararg\n"
        "lb     t2, \\at(a1)\n"
        "mul    a4, t0, t2\n"
        "add    \\p1, \\p1, a4\n"
        "mul    a4, t1, t2\n"
        "add    \\p2, \\p2, a4\n"
        ".ifnb  \\rest\n"
        "tc_products \\at + 1, \\rest\n"
        ".endif\n"
        ".endm\n"
        ".macro tc_tap at\n"
        "lw     t0, \\at(a0)\n"
        "lw     t1, \\at + 4(a0)\n"
        "tc_products \\at, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6\n"
        ".endm\n"
        ".macro tc_three op, by, first:req, rest:vararg\n"
        "\\op   \\first, \\first, \\by\n"
        ".ifnb  \\rest\n"
        "tc_three \\op, \\by, \\rest\n"
        ".endif\n"
        ".endm\n"
#if TC_RV32_BITS
        ".macro tc_clamp v\n"
        "max    \\v, \\v, a6\n"
        "min    \\v, \\v, a7\n"
        ".endm\n"
#else
        ".macro tc_clamp v\n"
        "bge    \\v, a6, 2f\n"
        "mv     \\v, a6\n"
        "2:\n"
        "bge    a7, \\v, 2f\n"
        "mv     \\v, a7\n"
        "2:\n"
        ".endm\n"
#endif
        /* the sums of the channel at byte `at` of the pixels, and those behind it */
        ".macro tc_outputs at, p1:req, p2:req, rest:vararg\n"
        "slli   t0, \\p2, 11\n"                /* B * 2^11 */
        "lw     a4, 16 * (\\at) + 4(a3)\n"
        "srai   t1, t0, 11\n"
        "sub    t1, \\p2, t1\n"
        "lw     \\p2, 16 * (\\at)(a3)\n"
        "srli   t1, t1, 11\n"                  /* C modulo 2^11, times 2^10 */
        "sub    t1, \\p1, t1\n"
        "slli   t1, t1, 11\n"                  /* A * 2^11 */
        "srai   t2, t1, 10\n"
        "slli   \\p1, \\p1, 1\n"
        "sub    \\p1, \\p1, t2\n"              /* C * 2^11 */
        "tc_three add, \\p2, t0, t1, \\p1\n"
        "lw     \\p2, 16 * (\\at) + 12(a3)\n"
        "tc_three mulh, a4, t0, t1, \\p1\n"
        "tc_three sra, \\p2, t0, t1, \\p1\n"
        "tc_clamp t1\n"
        "tc_clamp t0\n"
        "tc_clamp \\p1\n"
        "sb     \\p1, \\at(ra)\n"
        "sb     t0, \\at(a0)\n"
        "sb     t1, \\at(a5)\n"
        ".ifnb  \\rest\n"
        "tc_outputs \\at + 1, \\rest\n"
        ".endif\n"
        ".endm\n"
        "addi   sp, sp, -80\n"
        "tc_frame sw, 0, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, ra, a0, a6, a7\n"
        "andi   t0, a2, 1\n"
        "slli   a2, a2, 5\n"                   /* four taps of two words */
        "add    a2, a2, a0\n"
        "slli   a4, a4, 7\n"                   /* eight channels of 16 bytes */
        "lw     a6, 16(a3)\n"
        "lw     a7, 20(a3)\n"
        "lw     a3, 0(a3)\n"
        "add    a4, a4, a3\n"
        "tc_frame sw, 64, a4, t0\n"
        "3:\n"
        "tc_clear s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6\n"
        "lw     t0, 68(sp)\n"
        "beqz   t0, 1f\n"
        "addi   a0, a0, -32\n"
        "addi   a1, a1, -32\n"
        "j      4f\n"
        "1:\n"
        "tc_tap 0\n"
        "tc_tap 8\n"
        "tc_tap 16\n"
        "tc_tap 24\n"
        "4:\n"
        "tc_tap 32\n"
        "tc_tap 40\n"
        "tc_tap 48\n"
        "tc_tap 56\n"
        "addi   a0, a0, 64\n"
        "addi   a1, a1, 64\n"
        "bne    a0, a2, 1b\n"
        "tc_frame lw, 56, a0, ra\n"
        "add    a0, a0, a5\n"
        "add    ra, ra, a0\n"
        "tc_outputs 0, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6\n"
        "lw     t0, 64(sp)\n"
        "lw     a0, 52(sp)\n"
        "addi   a3, a3, 128\n"
        "addi   a5, a5, 8\n"
        "bne    a3, t0, 3b\n"
        "tc_frame lw, 0, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, ra\n"
        "addi   sp, sp, 80\n"
        "ret\n"
        ".purgem tc_frame\n"
        ".purgem tc_clear\n"
        ".purgem tc_products\n"
        ".purgem tc_tap\n"
        ".purgem tc_three\n"
        ".purgem tc_clamp\n"
        ".purgem tc_outputs\n");
}

#endif

#endif
