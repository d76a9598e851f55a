/* SPDX-License-Identifier: 0BSD */
/* Of each line the last `held` bytes of what was before and of the new ones, one after the other.
 *
 * x [lines][fresh], before, after [lines][held], in bytes. after may be before, and not overlap x. No
 * scratch.
 */
#ifndef TC_SIGNAL_HISTORY_H
#define TC_SIGNAL_HISTORY_H

#include "tc_copy.h"
#include "tc_dsp.h"

/* tc_copy for many bytes: eight words at a time where the core has registers for them. */
static inline void tc_signal_keep(void *out, const void *in, int32_t bytes)
{
    uint8_t *to = (uint8_t *)out;
    const uint8_t *from = (const uint8_t *)in;

#if TC_DSP_ASM
    const uint8_t *const end = from + (bytes & ~31);
    if (from != end && (((uintptr_t)to | (uintptr_t)from) & 3) == 0) {
        __asm__ volatile(
            "1:\n"
            "ldm    %1!, {r3, r4, r5, r6, r8, r9, r10, r12}\n"
            "stm    %0!, {r3, r4, r5, r6, r8, r9, r10, r12}\n"
            "cmp    %1, %2\n"
            "bne    1b\n"
            : "+r"(to), "+r"(from)
            : "r"(end)
            : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "cc", "memory");
        bytes &= 31;
    }
#endif
    tc_copy(to, from, bytes);
}

/* copy: what copies a part of a line. */
TC_INLINE void tc_signal_history_by(const void *x, const void *before, int32_t lines, int32_t fresh,
                                    int32_t held, void *after, tc_copy_t *copy)
{
    const int32_t kept = held > fresh ? held - fresh : 0, taken = held - kept;
    const uint8_t *from = (const uint8_t *)x, *old = (const uint8_t *)before;
    uint8_t *to = (uint8_t *)after;

    for (int32_t line = 0; line < lines; line++, from += fresh, old += held, to += held) {
        copy(to, old + held - kept, kept);
        copy(to + kept, from + fresh - taken, taken);
    }
}

static TC_UNUSED void tc_signal_history(const void *x, const void *before, int32_t lines, int32_t fresh,
                                        int32_t held, void *after)
{
    tc_signal_history_by(x, before, lines, fresh, held, after, tc_signal_keep);
}

#endif
