/* SPDX-License-Identifier: 0BSD */
/* tc_signal_filter_bank.h, one product after the other. y may not overlap e. No scratch. */
#ifndef TC_SIGNAL_FILTER_BANK_U32_H
#define TC_SIGNAL_FILTER_BANK_U32_H

#include "tc_signal_filter_bank.h"

#if TC_GNU && defined(__thumb2__)

/* Intervals from `band` on, whose weights begin at w. Two bins at a time, an odd one before them.
 *
 * r3: y, r4 and r5: the sum, r6 and r7: the carry, r8: bins, r9: pairs of them that are left, [sp]: last. */
static TC_NAKED void tc_signal_intervals(const int16_t *w TC_UNUSED, const uint16_t *band TC_UNUSED,
                                         const uint32_t *e TC_UNUSED,
                                         const tc_signal_bank_t *state TC_UNUSED)
{
#define TC_SIGNAL_BIN(energy)                                                      \
    "ldr    r11, [r0], #4\n"                                                       \
    "uxth   lr, r11\n"                                                             \
    "lsr    r11, r11, #16\n"                                                       \
    "umlal  r4, r5, " energy ", lr\n"                                              \
    "umlal  r6, r7, " energy ", r11\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r4-r11, lr}\n"
        "ldm    r3, {r3, r5, r6, r7}\n"
        "push   {r5}\n"
        ".p2align 2\n"
        "1:\n"
        "ldrh   r8, [r1], #2\n"
        "ldrh   r9, [r1], #2\n"
        "add    r8, r2, r8, lsl #2\n"
        "mov    r4, r6\n"
        "mov    r5, r7\n"
        "mov    r6, #0\n"
        "mov    r7, #0\n"
        "tst    r9, #1\n"
        "beq    2f\n"
        "ldr    r10, [r8], #4\n"
        TC_SIGNAL_BIN("r10")
        "2:\n"
        "lsrs   r9, r9, #1\n"
        "beq    4f\n"
        ".p2align 2\n"
        "3:\n"
        "ldm    r8!, {r10, r12}\n"
        TC_SIGNAL_BIN("r10")
        TC_SIGNAL_BIN("r12")
        "subs   r9, r9, #1\n"
        "bne    3b\n"
        "4:\n"
        "strd   r4, r5, [r3], #8\n"
        "ldr    r10, [sp]\n"
        "cmp    r1, r10\n"
        "bls    1b\n"
        "add    sp, #4\n"
        "pop    {r4-r11, pc}\n");
#undef TC_SIGNAL_BIN
}

#else

static inline void tc_signal_intervals(const int16_t *w, const uint16_t *band, const uint32_t *e,
                                       const tc_signal_bank_t *state)
{
    tc_signal_intervals_plain(w, band, e, state);
}

#endif

static void tc_signal_filter_bank_u32(const tc_signal_filter_bank_t *p, const uint32_t *e, uint32_t *y)
{
    tc_signal_bank_t state;
    const int16_t *const w = tc_signal_bank_begin(p, e, y, &state);

    tc_signal_intervals(w, p->bands + 2, e, &state);
}

#endif
