/* SPDX-License-Identifier: 0BSD */
/* Products of two int8 matrices that are computed, with the DSP extension: what the operators that have such
 * share.
 *
 * Both sides are widened to int16 with the zero point taken off, four steps of the sum ("a unit") at a time
 * in the order (0, 2), (1, 3), zeros behind the end:
 *   xs: two rows a and b of the left side; unit by unit the words a(0,2) b(0,2) a(1,3) b(1,3)
 *   ys: the right side by four columns c0 to c3, zeros for columns beyond the last; unit by unit
 *       c0(0,2) c1(0,2) c2(0,2) c3(0,2) c0(1,3) c1(1,3) c2(1,3) c3(1,3)
 *
 * From a sum to int8, which the compiler proves equal to the layer's definition for every sum that can be:
 *   tc_matmul_blocks_<n>:       saturate((SMMLA(sum + start, mult, add)) >> n)
 *   tc_matmul_blocks_twice_<n>: saturate((SMMLAR(t, mult, add) - (t < 0)) >> n), t = 2 * (sum + start)
 */
#ifndef TC_MATMUL_DSP_H
#define TC_MATMUL_DSP_H

#include "tc_centred.h"

/* Four columns after the other of two rows y0 and y1, which may be the same where both rows of xs are. */
typedef struct {
    const int32_t *xs, *ys;
    int32_t units, blocks;
    int8_t *y0, *y1;
} tc_matmul_job_t;

typedef struct tc_matmul_requant_s tc_matmul_requant_t;
typedef void tc_matmul_blocks_t(const tc_matmul_requant_t *p, const tc_matmul_job_t *job);

struct tc_matmul_requant_s {
    int32_t mult, add, start;
    tc_matmul_blocks_t *blocks;
};

#if TC_DSP_ASM

typedef char tc_matmul_blocks_reads[
    __builtin_offsetof(tc_matmul_requant_t, start) == 8 && __builtin_offsetof(tc_matmul_job_t, units) == 8 &&
    __builtin_offsetof(tc_matmul_job_t, y1) == 20 ? 1 : -1];

/* Two steps of the sum: rows in r2 and r3, sums of the first row in r4 r6 r8 r10, of the second in r5 r7 r9
 * r11. 44 bytes. TC_MATMUL_FIRST: the first two, on top of what is in r11. */
#define TC_MATMUL_STEPS(c4, c5, c6, c7, c8, c9, c10)                               \
    "ldrd   r2, r3, [r0], #8     \n"                                               \
    "ldrd   r12, lr, [r1], #8    \n"                                               \
    "smlad  r4, r2, r12, " c4 "  \n"                                               \
    "smlad  r5, r3, r12, " c5 "  \n"                                               \
    "smlad  r6, r2, lr, " c6 "   \n"                                               \
    "smlad  r7, r3, lr, " c7 "   \n"                                               \
    "ldrd   r12, lr, [r1], #8    \n"                                               \
    "smlad  r8, r2, r12, " c8 "  \n"                                               \
    "smlad  r9, r3, r12, " c9 "  \n"                                               \
    "smlad  r10, r2, lr, " c10 " \n"                                               \
    "smlad  r11, r3, lr, r11     \n"
#define TC_MATMUL_PAIR TC_MATMUL_STEPS("r4", "r5", "r6", "r7", "r8", "r9", "r10")
#define TC_MATMUL_FIRST TC_MATMUL_STEPS("r11", "r11", "r11", "r11", "r11", "r11", "r11")

#define TC_MATMUL_ONCE(sum, to, n)                                                 \
    "smmla  " sum ", " sum ", r2, r3 \n"                                           \
    "ssat   " sum ", #8, " sum ", asr #" #n " \n"                                  \
    "strb   " sum ", [" to "], #1 \n"
#define TC_MATMUL_TWICE(sum, to, n)                                                \
    "lsl    " sum ", " sum ", #1 \n"                                               \
    "add    r0, r3, " sum ", asr #31 \n"                                           \
    "smmlar " sum ", " sum ", r2, r0 \n"                                           \
    "ssat   " sum ", #8, " sum ", asr #" #n " \n"                                  \
    "strb   " sum ", [" to "], #1 \n"

/* Inner loop: 91 instructions for 128 MAC, four units per turn, after the first unit. The first turn starts
 * in its middle where what is left is not a multiple of four. Frame: [0] xs [4] start [8] where to go on
 * after the first unit [12] end of xs [16] mult [20] add [24] y0 [28] y1 [32] end of ys */
#define TC_MATMUL_BLOCKS(name, finish, n)                                          \
    static TC_NAKED void name##_##n(const tc_matmul_requant_t *p TC_UNUSED,                                  \
                                    const tc_matmul_job_t *job TC_UNUSED)                                    \
    {                                                                              \
        __asm__ volatile(                                                          \
            ".syntax unified             \n"                                       \
            "push   {r4-r11, lr}         \n"                                       \
            "sub    sp, sp, #36          \n"                                       \
            "ldm    r1, {r2-r7}          \n" /* xs, ys, units, blocks, y0, y1 */   \
            "ldm    r0, {r9-r11}         \n" /* mult, add, start */                \
            "strd   r9, r10, [sp, #16]   \n"                                       \
            "strd   r6, r7, [sp, #24]    \n"                                       \
            "strd   r2, r11, [sp]        \n"                                       \
            "mul    r5, r5, r4           \n"                                       \
            "add    r5, r3, r5, lsl #5   \n"                                       \
            "str    r5, [sp, #32]        \n"                                       \
            "add    r8, r2, r4, lsl #4   \n"                                       \
            "adr    r7, 2f               \n"                                       \
            "rsb    r6, r4, #1           \n"                                       \
            "and    r6, r6, #3           \n" /* units to skip, 88 bytes each */    \
            "cmp    r4, #1               \n"                                       \
            "it     eq                   \n"                                       \
            "moveq  r6, #4               \n"                                       \
            "mov    r5, #88              \n"                                       \
            "mla    r7, r6, r5, r7       \n"                                       \
            "orr    r7, r7, #1           \n"                                       \
            "strd   r7, r8, [sp, #8]     \n"                                       \
            "mov    r1, r3               \n"                                       \
            "1:                          \n" /* four columns */                    \
            "ldrd   r0, r11, [sp]        \n"                                       \
            TC_MATMUL_FIRST                                                        \
            TC_MATMUL_PAIR                                                         \
            "ldr    r12, [sp, #8]        \n"                                       \
            "bx     r12                  \n"                                       \
            ".balign 4                   \n"                                       \
            "2:                          \n"                                       \
            ".rept 8                     \n" /* four units */                      \
            TC_MATMUL_PAIR                                                         \
            ".endr                       \n"                                       \
            "ldr    r2, [sp, #12]        \n"                                       \
            "cmp    r0, r2               \n"                                       \
            "bne.w  2b                   \n"                                       \
            "ldrd   r2, r3, [sp, #16]    \n"                                       \
            "ldrd   r12, lr, [sp, #24]   \n"                                       \
            finish("r4", "r12", n) finish("r6", "r12", n) finish("r8", "r12", n) finish("r10", "r12", n) \
            finish("r5", "lr", n) finish("r7", "lr", n) finish("r9", "lr", n) finish("r11", "lr", n) \
            "ldr    r2, [sp, #32]        \n"                                       \
            "strd   r12, lr, [sp, #24]   \n"                                       \
            "cmp    r1, r2               \n"                                       \
            "bne.w  1b                   \n"                                       \
            "add    sp, sp, #36          \n"                                       \
            "pop    {r4-r11, pc}         \n");                                     \
    }

#else

static inline int32_t tc_matmul_once(const tc_matmul_requant_t *p, int32_t sum, int32_t n)
{
    return tc_ssat8(tc_smmla(sum, p->mult, p->add) >> n);
}

static inline int32_t tc_matmul_twice(const tc_matmul_requant_t *p, int32_t sum, int32_t n)
{
    return tc_ssat8(tc_smmlar(2 * sum, p->mult, p->add + (sum >> 31)) >> n);
}

#define TC_MATMUL_ONCE tc_matmul_once
#define TC_MATMUL_TWICE tc_matmul_twice

#define TC_MATMUL_BLOCKS(name, finish, n)                                                                  \
    static TC_UNUSED void name##_##n(const tc_matmul_requant_t *p, const tc_matmul_job_t *job)             \
    {                                                                                                      \
        for (int32_t column = 0; column < 4 * job->blocks; column++) {                                     \
            const int32_t *x = job->xs, *y = job->ys + (column >> 2) * 8 * job->units + (column & 3);      \
            int32_t sum0 = p->start, sum1 = p->start;                                                      \
            for (int32_t pair = 0; pair < 2 * job->units; pair++, x += 2, y += 4) {                        \
                sum0 = tc_smlad(x[0], y[0], sum0);                                                         \
                sum1 = tc_smlad(x[1], y[0], sum1);                                                         \
            }                                                                                              \
            job->y0[column] = (int8_t)finish(p, sum0, n);                                                  \
            job->y1[column] = (int8_t)finish(p, sum1, n);                                                  \
        }                                                                                                  \
    }

#endif

#define TC_MATMUL_SHIFTS(name, finish)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 1)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 2)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 3)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 4)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 5)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 6)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 7)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 8)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 9)                                                                      \
    TC_MATMUL_BLOCKS(name, finish, 10)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 11)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 12)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 13)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 14)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 15)                                                                     \
    TC_MATMUL_BLOCKS(name, finish, 16)
TC_MATMUL_SHIFTS(tc_matmul_blocks, TC_MATMUL_ONCE)
TC_MATMUL_SHIFTS(tc_matmul_blocks_twice, TC_MATMUL_TWICE)
#undef TC_MATMUL_SHIFTS
#undef TC_MATMUL_BLOCKS
#undef TC_MATMUL_ONCE
#undef TC_MATMUL_TWICE
#if TC_DSP_ASM
#undef TC_MATMUL_FIRST
#undef TC_MATMUL_PAIR
#undef TC_MATMUL_STEPS
#endif

/* n <= 4 int8 at x, `next` apart, minus the zero point, as the words (0, 2) and (1, 3); 0 beyond. */
static inline void tc_matmul_gather(const int8_t *x, int32_t n, int32_t next, int32_t zero, int32_t *even,
                                    int32_t *odd)
{
    const int32_t v0 = n > 0 ? x[0] - zero : 0, v1 = n > 1 ? x[next] - zero : 0;
    const int32_t v2 = n > 2 ? x[2 * next] - zero : 0, v3 = n > 3 ? x[3 * next] - zero : 0;

    *even = (int32_t)((uint32_t)v2 << 16 | ((uint32_t)v0 & 0xffffu));
    *odd = (int32_t)((uint32_t)v3 << 16 | ((uint32_t)v1 & 0xffffu));
}

/* One row of n int8, `next` apart, into every other word (`apart` 2) or every fourth (4) of xs. */
static inline void tc_matmul_widen(const int8_t *x, int32_t n, int32_t next, int32_t zero, int32_t apart,
                                   int32_t *xs)
{
    const int32_t zeros = tc_centred_zeros(zero);

    for (; next == 1 && n >= 4; n -= 4, x += 4, xs += 2 * apart) {
        const int32_t v = tc_load4(x);
        xs[0] = tc_centred(zeros, v);
        xs[apart] = tc_centred_ror8(zeros, v);
    }
    for (; n > 0; n -= 4, x += 4 * next, xs += 2 * apart) {
        tc_matmul_gather(x, n < 4 ? n : 4, next, zero, xs, xs + apart);
    }
}

/* Four steps of four columns that lie side by side, rows `down` apart. */
static inline void tc_matmul_turn(const int8_t *y, int32_t down, int32_t zeros, int32_t *ys)
{
    const int32_t v0 = tc_load4(y), v1 = tc_load4(y + down), v2 = tc_load4(y + 2 * down),
        v3 = tc_load4(y + 3 * down);
    const int32_t a0 = tc_centred(zeros, v0), a2 = tc_centred(zeros, v2);
    const int32_t b0 = tc_centred_ror8(zeros, v0), b2 = tc_centred_ror8(zeros, v2);
    const int32_t a1 = tc_centred(zeros, v1), a3 = tc_centred(zeros, v3);
    const int32_t b1 = tc_centred_ror8(zeros, v1), b3 = tc_centred_ror8(zeros, v3);
    ys[0] = tc_pkhbt(a0, a2);
    ys[1] = tc_pkhbt(b0, b2);
    ys[2] = tc_pkhtb(a2, a0);
    ys[3] = tc_pkhtb(b2, b0);
    ys[4] = tc_pkhbt(a1, a3);
    ys[5] = tc_pkhbt(b1, b3);
    ys[6] = tc_pkhtb(a3, a1);
    ys[7] = tc_pkhtb(b3, b1);
}

/* Four steps of four columns that are each in one piece, `right` apart. */
static inline void tc_matmul_beside(const int8_t *y, int32_t right, int32_t zeros, int32_t *ys)
{
    const int32_t v0 = tc_load4(y), v1 = tc_load4(y + right), v2 = tc_load4(y + 2 * right),
        v3 = tc_load4(y + 3 * right);
    ys[0] = tc_centred(zeros, v0);
    ys[1] = tc_centred(zeros, v1);
    ys[2] = tc_centred(zeros, v2);
    ys[3] = tc_centred(zeros, v3);
    ys[4] = tc_centred_ror8(zeros, v0);
    ys[5] = tc_centred_ror8(zeros, v1);
    ys[6] = tc_centred_ror8(zeros, v2);
    ys[7] = tc_centred_ror8(zeros, v3);
}

/* The right side [depth][cols], steps `down` and columns `right` apart, to ys: 32 bytes a unit for every four
 * columns. */
static TC_UNUSED void tc_matmul_columns(const int8_t *y, int32_t depth, int32_t cols, int32_t down,
                                        int32_t right, int32_t zero, int32_t *ys)
{
    const int32_t units = (depth + 3) >> 2, whole = right == 1 || down == 1 ? depth >> 2 : 0;
    const int32_t zeros = tc_centred_zeros(zero);

    for (; cols > 0; cols -= 4, y += 4 * right, ys += 8 * units) {
        const int32_t whole_units = cols >= 4 ? whole : 0;
        for (int32_t u = 0; u < whole_units; u++) {
            if (down == 1) {
                tc_matmul_beside(y + 4 * u, right, zeros, ys + 8 * u);
            } else {
                tc_matmul_turn(y + 4 * u * down, down, zeros, ys + 8 * u);
            }
        }
        for (int32_t c = 0; c < 4 && whole_units < units; c++) {
            const int8_t *rest = y + 4 * whole_units * down + c * right;
            const int32_t n = c < cols ? depth - 4 * whole_units : 0;
            tc_matmul_widen(rest, n, down, zero, 4, ys + 8 * whole_units + c);
            for (int32_t u = whole_units; c >= cols && u < units; u++) {
                ys[8 * u + c] = ys[8 * u + 4 + c] = 0;
            }
        }
    }
}

/* Rows y0 and y1 [cols] of the product of the two rows in job->xs and all of job->ys. */
static TC_UNUSED void tc_matmul_two_rows(const tc_matmul_requant_t *p, tc_matmul_job_t *job, int32_t cols,
                                         int8_t *y0, int8_t *y1)
{
    const int32_t *ys = job->ys;
    const int32_t whole = cols >> 2;

    job->blocks = whole;
    job->y0 = y0;
    job->y1 = y1;
    if (whole > 0) {
        p->blocks(p, job);
    }
    if (cols & 3) {
        int8_t last[8];
        job->ys = ys + 8 * whole * job->units;
        job->blocks = 1;
        job->y0 = last;
        job->y1 = last + 4;
        p->blocks(p, job);
        for (int32_t c = 0; c < (cols & 3); c++) {
            y0[4 * whole + c] = last[c];
            y1[4 * whole + c] = last[4 + c];
        }
        job->ys = ys;
    }
}

#endif
