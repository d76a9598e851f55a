/* SPDX-License-Identifier: 0BSD */
/* Loops of recurrent layers (tc_recurrent.h) with Helium (MVE): four units at a time.
 *
 * w: for each four units the weights of their four sums, one after the other; of each sum for each eight taps
 * eight of every unit. The sums of an LSTM (i, f, g, o) and z and r of a GRU go over the whole vector, n of a
 * GRU over the input and over the hidden state. Of 4 bits a byte has a weight of one unit in its low half and
 * of the next in its high half: for each eight taps eight bytes of two units, then of the others. constants:
 * for each four units 4 vectors of four words, what the sums begin with, then 4 with their factors times
 * 2^16.
 */
#ifndef TC_RECURRENT_MVE_H
#define TC_RECURRENT_MVE_H

#include "tc_mve.h"
#include "tc_recurrent.h"

typedef struct {
    tc_recurrent_t cell; /* state_at and taps: multiples of 8 */
    const int8_t *w;
    const int32_t *constants;
} tc_recurrent_mve_t;

/* Four units of a step. memory: cell of an LSTM, state of a GRU. n: units that are left, from 1 on. */
typedef struct {
    const int32_t *table, *sums, *constants; /* table: where the chord of 0 is */
    int32_t *memory;
    int16_t *hidden;
    void *y;
    int32_t n, lift;
    int32_t minus_over, minus_under; /* shifts of gates */
    int32_t half, minus_down;
    int32_t y_mult, y_add, minus_y_shift, y_wide; /* y_mult times 2^16 */
} tc_recurrent_mve_job_t;

#if TC_MVE_ASM

typedef char tc_recurrent_mve_reads[__builtin_offsetof(tc_recurrent_mve_job_t, n) == 24 &&
    __builtin_offsetof(tc_recurrent_mve_job_t, y_mult) == 48 ? 1 : -1];

/* Four sums over `eights` times eight numbers; w is read on. */
static TC_NAKED const int8_t *tc_recurrent_mve_sums(const int16_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                                    int32_t eights TC_UNUSED, int32_t *sums TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        "mov    lr, r2\n"
        "movs   r4, #0\n"
        "movs   r6, #0\n"
        "mov    r8, #0\n"
        "mov    r10, #0\n"
        "1:\n"
        "vldrh.u16 q0, [r0], #16\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vldrb.s16 q2, [r1], #8\n"
        "vmladava.s16 r4, q0, q1\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vmladava.s16 r6, q0, q2\n"
        "vldrb.s16 q2, [r1], #8\n"
        "vmladava.s16 r8, q0, q1\n"
        "vmladava.s16 r10, q0, q2\n"
        "le     lr, 1b\n"
        "strd   r4, r6, [r3]\n"
        "strd   r8, r10, [r3, #8]\n"
        "mov    r0, r1\n"
        "pop    {r4-r10, pc}\n");
}

/* The same of weights of 4 bits: those in low halves are shifted up, and their sums down in the end. */
static TC_NAKED const int8_t *tc_recurrent_mve_w4_sums(const int16_t *x TC_UNUSED, const int8_t *w TC_UNUSED,
                                                       int32_t eights TC_UNUSED, int32_t *sums TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        "mov    lr, r2\n"
        "movs   r4, #0\n"
        "movs   r6, #0\n"
        "mov    r8, #0\n"
        "mov    r10, #0\n"
        "1:\n"
        "vldrh.u16 q0, [r0], #16\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vshr.s16 q2, q1, #4\n"
        "vmladava.s16 r6, q0, q2\n"
        "vshl.i16 q1, q1, #12\n"
        "vldrb.s16 q3, [r1], #8\n"
        "vmladava.s16 r4, q0, q1\n"
        "vshr.s16 q2, q3, #4\n"
        "vmladava.s16 r10, q0, q2\n"
        "vshl.i16 q3, q3, #12\n"
        "vmladava.s16 r8, q0, q3\n"
        "le     lr, 1b\n"
        "asrs   r4, r4, #12\n"
        "asr    r8, r8, #12\n"
        "strd   r4, r6, [r3]\n"
        "strd   r8, r10, [r3, #8]\n"
        "mov    r0, r1\n"
        "pop    {r4-r10, pc}\n");
}

/* n numbers of the input, scaled, of 8 or 16 bits; how: mult, add, minus shift. */
#define TC_RECURRENT_MVE_INPUT(name, load)                                         \
    static TC_NAKED void name(const void *x TC_UNUSED, int16_t *to TC_UNUSED, int32_t n TC_UNUSED,           \
                              const int32_t *how TC_UNUSED)                        \
    {                                                                              \
        __asm__ volatile(".syntax unified \n push {r4-r6, lr} \n ldrd r4, r5, [r3] \n ldr r6, [r3, #8] \n"   \
                         "vdup.32 q1, r4 \n wlstp.32 lr, r2, 2f \n"                \
                         "1: \n " load " \n vmlas.s32 q0, q1, r5 \n vshl.s32 q0, r6 \n"                      \
                         "vstrh.32 q0, [r1], #8 \n letp lr, 1b \n"                 \
                         "2: \n pop {r4-r6, pc} \n");                              \
    }
TC_RECURRENT_MVE_INPUT(tc_recurrent_mve_input8, "vldrb.s32 q0, [r0], #4")
TC_RECURRENT_MVE_INPUT(tc_recurrent_mve_input16, "vldrh.s32 q0, [r0], #8")

/* q0 = what goes into the gate of sum k; r1 sums, r2 constants. */
#define TC_RECURRENT_MVE_V(k, lifted)                                              \
    "vldrw.u32 q0, [r1, #" #k "*16] \n vldrw.u32 q1, [r2, #" #k "*16] \n vadd.i32 q0, q0, q1 \n"             \
    lifted " \n vldrw.u32 q1, [r2, #64+" #k "*16] \n vmulh.s32 q0, q0, q1 \n"
#define TC_RECURRENT_MVE_OVER "vshl.i32 q0, q0, #8"
#define TC_RECURRENT_MVE_UNDER "vshl.s32 q0, r4"

/* q0 = gate of q0 in Q15; r0: table, down: minus the shift, fine: that and 13. q1 and q2 are lost. */
#define TC_RECURRENT_MVE_GATE(down, fine)                                          \
    "vmov q1, q0 \n vshl.s32 q1, " down " \n vqshl.s32 q1, q1, #25 \n vshr.s32 q1, q1, #25 \n"               \
    "vldrw.u32 q2, [r0, q1, uxtw #2] \n vshl.s32 q0, " fine " \n vshl.i32 q0, q0, #19 \n"                    \
    "vshr.u32 q0, q0, #19 \n vshr.s32 q1, q2, #16 \n vmul.i32 q0, q0, q1 \n vshr.s32 q0, q0, #16 \n"         \
    "vmovlb.u16 q2, q2 \n vadd.i32 q0, q0, q2 \n"

/* r0 table, r1 sums, r2 constants, r4 lift, r5 and r6 minus over, and 13 more, r7 and r8 minus under, and 13
 * more, r9 memory, r11 2^14, r12 job. */
#define TC_RECURRENT_MVE_ENTER                                                     \
    ".syntax unified \n push {r4-r11, lr} \n vpush {d8-d13} \n mov r12, r0 \n ldrd r0, r1, [r12] \n"         \
    "ldrd r2, r9, [r12, #8] \n ldrd r5, r7, [r12, #32] \n ldrd r3, r4, [r12, #24] \n add r6, r5, #13 \n"     \
    "add r8, r7, #13 \n mov r11, #16384 \n vctp.32 r3 \n"
/* hidden in q2 and y from what was made in q0. */
#define TC_RECURRENT_MVE_LEAVE                                                     \
    "ldrd r1, r2, [r12, #16] \n ldrd r3, r4, [r12, #48] \n ldrd r5, r6, [r12, #56] \n vdup.32 q1, r3 \n"     \
    "vpst \n vstrht.32 q2, [r1] \n vmulh.s32 q0, q0, q1 \n vadd.i32 q0, q0, r4 \n vshl.s32 q0, r5 \n"        \
    "vqmovnb.s32 q0, q0 \n cbz r6, 1f \n vpst \n vstrht.32 q0, [r2] \n b 2f \n"    \
    "1: \n vqmovnb.s16 q0, q0 \n vpst \n vstrbt.32 q0, [r2] \n"                    \
    "2: \n vpop {d8-d13} \n pop {r4-r11, pc} \n"

static TC_NAKED void tc_recurrent_mve_lstm(const tc_recurrent_mve_job_t *job TC_UNUSED)
{
    __asm__ volatile(TC_RECURRENT_MVE_ENTER
        TC_RECURRENT_MVE_V(0, TC_RECURRENT_MVE_OVER) TC_RECURRENT_MVE_GATE("r5", "r6")
        "vmov   q3, q0\n"
        TC_RECURRENT_MVE_V(2, TC_RECURRENT_MVE_OVER) TC_RECURRENT_MVE_GATE("r5", "r6")
        "vsub.i32 q0, q0, r11\n"
        "vmul.i32 q3, q3, q0\n"
        "mov    r10, #1\n"
        "vshr.s32 q3, q3, #10\n"
        "vadd.i32 q3, q3, r10\n"
        TC_RECURRENT_MVE_V(1, TC_RECURRENT_MVE_UNDER) TC_RECURRENT_MVE_GATE("r7", "r8")
        "vshl.i32 q0, q0, #16\n"
        "vpst\n"
        "vldrwt.u32 q1, [r9]\n"
        "vmulh.s32 q0, q0, q1\n"
        "vadd.i32 q3, q3, q0\n"
        "vqadd.s32 q3, q3, q3\n"
        "vpst\n"
        "vstrwt.32 q3, [r9]\n"
        TC_RECURRENT_MVE_V(3, TC_RECURRENT_MVE_UNDER) TC_RECURRENT_MVE_GATE("r7", "r8")
        "vmov   q4, q0\n"
        "vmov   q0, q3\n"
        "mvn    r5, #15\n"
        "mvn    r6, #2\n"
        TC_RECURRENT_MVE_GATE("r5", "r6")
        "vsub.i32 q0, q0, r11\n"
        "vmul.i32 q0, q0, q4\n"
        "ldrd   r5, r6, [r12, #40]\n"
        "vadd.i32 q0, q0, r5\n"
        "vmov   q2, q0\n"
        "vshl.s32 q2, r6\n"
        TC_RECURRENT_MVE_LEAVE);
}

static TC_NAKED void tc_recurrent_mve_gru(const tc_recurrent_mve_job_t *job TC_UNUSED)
{
    __asm__ volatile(TC_RECURRENT_MVE_ENTER
        TC_RECURRENT_MVE_V(0, TC_RECURRENT_MVE_OVER) TC_RECURRENT_MVE_GATE("r5", "r6")
        "vshl.i32 q4, q0, #16\n"
        TC_RECURRENT_MVE_V(1, TC_RECURRENT_MVE_UNDER) TC_RECURRENT_MVE_GATE("r7", "r8")
        "vshl.i32 q3, q0, #16\n"
        TC_RECURRENT_MVE_V(3, TC_RECURRENT_MVE_UNDER)
        "vmulh.s32 q3, q3, q0\n"
        TC_RECURRENT_MVE_V(2, TC_RECURRENT_MVE_UNDER)
        "vadd.i32 q0, q0, q3\n"
        "vadd.i32 q0, q0, q3\n"
        TC_RECURRENT_MVE_GATE("r7", "r8")
        "vsub.i32 q0, q0, r11\n"
        "vpst\n"
        "vldrwt.u32 q1, [r9]\n"
        "vshl.i32 q2, q0, #6\n"
        "vsub.i32 q1, q1, q2\n"
        "vmulh.s32 q1, q1, q4\n"
        "vshl.i32 q0, q0, #5\n"
        "vadd.i32 q0, q0, q1\n"
        "vadd.i32 q0, q0, q0\n"
        "mov    r5, #1\n"
        "vadd.i32 q0, q0, r5\n"
        "vpst\n"
        "vstrwt.32 q0, [r9]\n"
        "ldrd   r5, r6, [r12, #40]\n"
        "vadd.i32 q2, q0, r5\n"
        "vshl.s32 q2, r6\n"
        "vqmovnb.s32 q2, q2\n"
        TC_RECURRENT_MVE_LEAVE);
}

static inline void tc_recurrent_mve_input(const tc_recurrent_t *p, const void *x, int32_t step,
                                          int16_t *vector)
{
    const int32_t first = p->x_first + step * p->x_step, how[3] = {p->x_mult, p->x_add, -p->x_shift};
    if (p->x_wide) {
        tc_recurrent_mve_input16((const int16_t *)x + first, vector, p->in_c, how);
    } else {
        tc_recurrent_mve_input8((const int8_t *)x + first, vector, p->in_c, how);
    }
}

#else

static inline const int8_t *tc_recurrent_mve_sums(const int16_t *x, const int8_t *w, int32_t eights,
                                                  int32_t *sums)
{
    for (int32_t unit = 0; unit < 4; unit++) {
        sums[unit] = 0;
        for (int32_t i = 0; i < 8 * eights; i++) {
            sums[unit] += x[i] * w[i / 8 * 32 + unit * 8 + i % 8];
        }
    }
    return w + 32 * eights;
}

static inline const int8_t *tc_recurrent_mve_w4_sums(const int16_t *x, const int8_t *w, int32_t eights,
                                                     int32_t *sums)
{
    for (int32_t unit = 0; unit < 4; unit++) {
        sums[unit] = 0;
        for (int32_t i = 0; i < 8 * eights; i++) {
            const int32_t both = w[i / 8 * 16 + unit / 2 * 8 + i % 8];
            sums[unit] += x[i] * (unit % 2 ? both >> 4 : ((both & 15) ^ 8) - 8);
        }
    }
    return w + 16 * eights;
}

#define tc_recurrent_mve_input tc_recurrent_input

#endif

typedef const int8_t *tc_recurrent_mve_sums_t(const int16_t *x, const int8_t *w, int32_t eights,
                                              int32_t *sums);

/* The sums of four units by such a function, and where the weights of the next four begin. apart: where
 * the taps of the last two sums are cut in two, as eights of numbers; 0 where they are not. */
static inline const int8_t *tc_recurrent_mve_all_sums(const tc_recurrent_t *p, const int16_t *vector,
                                                      const int8_t *w, int32_t apart,
                                                      tc_recurrent_mve_sums_t *by, int32_t *sums)
{
    const int32_t eights = p->taps / 8;
    for (int32_t k = 0; k < (apart ? 2 : 4); k++) {
        w = by(vector, w, eights, sums + 4 * k);
    }
    if (apart) {
        w = by(vector, w, apart, sums + 8);
        w = by(vector + 8 * apart, w, eights - apart, sums + 12);
    }
    return w;
}

#if TC_MVE_ASM

/* A step; units: makes four of them. */
static inline void tc_recurrent_mve_step(const tc_recurrent_mve_t *layer, int32_t *memory, int16_t *vector,
                                         int16_t *next, void *y, int32_t step, int32_t apart,
                                         tc_recurrent_mve_sums_t *by,
                                         void (*units)(const tc_recurrent_mve_job_t *))
{
    const tc_recurrent_t *p = &layer->cell;
    const int32_t at = p->y_first + step * p->y_step;
    const int8_t *w = layer->w;
    int32_t sums[16];
    tc_recurrent_mve_job_t job = {
        p->table + 64, sums, layer->constants, memory, next, (int8_t *)y + (at << p->y_wide), 0, p->lift,
        -p->over, -p->under, 1 << (p->down - 1), -p->down, p->y_mult * 65536, p->y_add, -p->y_shift,
        p->y_wide};

    for (job.n = p->units; job.n > 0; job.n -= 4) {
        w = tc_recurrent_mve_all_sums(p, vector, w, apart, by, sums);
        units(&job);
        job.constants += 32;
        job.memory += 4;
        job.hidden += 4;
        job.y = (int8_t *)job.y + (4 << p->y_wide);
    }
}

#else

#define tc_recurrent_mve_lstm tc_lstm_loop_unit
#define tc_recurrent_mve_gru tc_gru_loop_unit

/* The same, unit by unit as the portable loops have them. */
static inline void tc_recurrent_mve_step(const tc_recurrent_mve_t *layer, int32_t *memory, int16_t *vector,
                                         int16_t *next, void *y, int32_t step, int32_t apart,
                                         tc_recurrent_mve_sums_t *by, tc_recurrent_unit_t *unit)
{
    const int32_t *constants = layer->constants;
    const int8_t *w = layer->w;

    for (int32_t first = 0; first < layer->cell.units; first += 4, constants += 32) {
        int32_t sums[16], acc[4];
        int16_t factor[4];
        w = tc_recurrent_mve_all_sums(&layer->cell, vector, w, apart, by, sums);
        for (int32_t u = 0; u < 4 && first + u < layer->cell.units; u++) {
            for (int32_t k = 0; k < 4; k++) {
                acc[k] = sums[4 * k + u] + constants[4 * k + u];
                factor[k] = (int16_t)(constants[16 + 4 * k + u] >> 16);
            }
            unit(&layer->cell, acc, factor, memory, next, y, step, first + u);
        }
    }
}

#endif

#endif
