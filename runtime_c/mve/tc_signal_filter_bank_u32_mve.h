/* SPDX-License-Identifier: 0BSD */
/* tc_signal_filter_bank_u32 with Helium: four bins at a time. Same results; sums modulo 2^64 do not depend on
 * their order. */
#ifndef TC_SIGNAL_FILTER_BANK_U32_MVE_H
#define TC_SIGNAL_FILTER_BANK_U32_MVE_H

#include "tc_mve.h"
#include "tc_signal_filter_bank.h"

#if TC_MVE_ASM

/* r3: y, r4 and r5: the sum, r6 and r7: the carry, r8: last, r10: weights of the next interval. */
static TC_NAKED void tc_mve_intervals(const int16_t *w TC_UNUSED, const uint16_t *band TC_UNUSED,
                                      const uint32_t *e TC_UNUSED, const tc_signal_bank_t *state TC_UNUSED)
{
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r10, lr}\n"
        "ldm    r3, {r3, r5, r6, r7}\n"
        "mov    r8, r5\n"
        "1:\n"
        "ldrh   r9, [r1], #2\n"
        "ldrh   r12, [r1], #2\n"
        "mov    r4, r6\n"
        "mov    r5, r7\n"
        "add    r9, r2, r9, lsl #2\n"
        "add    r10, r0, r12, lsl #2\n"
        "movs   r6, #0\n"
        "movs   r7, #0\n"
        "wlstp.32 lr, r12, 3f\n"
        "2:\n"
        "vldrw.u32 q0, [r9], #16\n"
        "vldrh.u16 q1, [r0], #16\n"
        "vmovlb.u16 q2, q1\n"
        "vmlaldava.u32 r4, r5, q0, q2\n"
        "vmovlt.u16 q3, q1\n"
        "vmlaldava.u32 r6, r7, q0, q3\n"
        "letp   lr, 2b\n"
        "3:\n"
        "strd   r4, r5, [r3], #8\n"
        "mov    r0, r10\n"
        "cmp    r1, r8\n"
        "bls    1b\n"
        "pop    {r4-r10, pc}\n");
}

#else

static inline void tc_mve_intervals(const int16_t *w, const uint16_t *band, const uint32_t *e,
                                    const tc_signal_bank_t *state)
{
    tc_signal_intervals_plain(w, band, e, state);
}

#endif

static void tc_signal_filter_bank_u32_mve(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    tc_signal_bank_t state;
    const int16_t *const w = tc_signal_bank_begin(p, e, y, &state);

    tc_mve_intervals(w, p->bands + 2, e, &state);
}

#endif
