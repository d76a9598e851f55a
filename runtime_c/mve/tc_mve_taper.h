/* SPDX-License-Identifier: 0BSD */
/* tc_spectrum_taper.h with Helium: eight samples at a time, where there are no more of both kinds; the same
 * numbers. */
#ifndef TC_MVE_TAPER_H
#define TC_MVE_TAPER_H

#include "tc_mve.h"
#include "tc_spectrum_taper.h"

#if TC_MVE_ASM

/* Samples, a multiple of eight of them, at least eight; the one before the first lies before x. As
 * tc_taper_pairs.
 *
 * r4 .. r9: the taper; r10: y, imaginary parts; r11: what a place grows by; q6: places, before bits are
 * turned. */
static TC_NAKED void tc_mve_taper_eights(const int16_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                         int32_t n TC_UNUSED, tc_taper_t *taper TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "vpush  {d8-d13}\n"
        "ldm    r3, {r4-r9}\n"
        "sxth   r7, r7\n"
        "add    r10, r4, #4\n"
        "lsr    r11, r6, #1\n"
        "movs   r12, #0\n"
        "vidup.u32 q6, r12, #1\n"
        "vmul.i32 q6, q6, r11\n"
        "lsr    r12, r5, #1\n"
        "vadd.i32 q6, q6, r12\n"
        "lsl    r11, r6, #1\n"
        "lsr    r12, r2, #1\n"
        "mla    r5, r12, r6, r5\n"
        "lsr    r2, r2, #3\n"
        "movs   r12, #32\n"
        "dls    lr, r2\n"
        "1:\n"
        "vldrh.u16 q3, [r0, #-2]\n"
        "vldrh.u16 q0, [r0], #16\n"
        "vmovlb.s16 q3, q3\n"
        "vmovlb.s16 q1, q0\n"
        "vmovlt.s16 q2, q0\n"
        "vshl.i32 q0, q1, #14\n"
        "vshl.i32 q2, q2, #14\n"
        "vmla.s32 q0, q3, r7\n"
        "vld20.32 {q4, q5}, [r1]\n"
        "vmla.s32 q2, q1, r7\n"
        "vld21.32 {q4, q5}, [r1]!\n"
        "vshl.s32 q0, r8\n"
        "vshl.s32 q2, r8\n"
        "vrmulh.s32 q0, q0, q4\n"
        "vbrsr.32 q1, q6, r12\n"
        "vrmulh.s32 q2, q2, q5\n"
        "vstrw.32 q0, [r4, q1, uxtw #2]\n"
        "vadd.i32 q6, q6, r11\n"
        "vstrw.32 q2, [r10, q1, uxtw #2]\n"
        "le     lr, 1b\n"
        "ldr    r9, [r0, #-4]\n"
        "str    r5, [r3, #4]\n"
        "str    r9, [r3, #20]\n"
        "vpop   {d8-d13}\n"
        "pop    {r4-r11, pc}\n");
}

static inline void tc_mve_taper_part(const int16_t *x, const int32_t *w, int32_t n, tc_taper_t *taper)
{
    /* the sample before the first may lie elsewhere */
    const int32_t lead = n > 0 ? 2 : 0, eights = (n - lead) & ~7;

    tc_taper_pairs(x, w, x + lead, taper);
    if (eights > 0) {
        tc_mve_taper_eights(x + lead, w + lead, eights, taper);
    }
    tc_taper_pairs(x + lead + eights, w + lead + eights, x + n, taper);
}

#else

static inline void tc_mve_taper_part(const int16_t *x, const int32_t *w, int32_t n, tc_taper_t *taper)
{
    tc_taper_part(x, w, n, taper);
}

#endif

/* Returns s. */
static inline int32_t tc_mve_taper(const tc_spectrum_t *p, const int16_t *x, const int16_t *held, int32_t *y)
{
    const tc_taper_samples_t v = tc_taper_samples(p, x, held);
    tc_taper_t taper = tc_taper_begin(p, &v, y, 0x80000000u / (uint32_t)p->half * 2);

    tc_mve_taper_part(v.first, p->window, v.old, &taper);
    tc_mve_taper_part(v.second, p->window + v.old, p->n - v.old, &taper);
    tc_taper_nothing(p, &taper);
    return v.scale;
}

#endif
