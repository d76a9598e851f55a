/* SPDX-License-Identifier: 0BSD */
/* Of each line the last `held` bytes of what was before and of the new ones, one after the other.
 *
 * x [lines][fresh], before, after [lines][held], in bytes. after may be before, and not overlap x. No scratch.
 */
#ifndef TC_SIGNAL_HISTORY_H
#define TC_SIGNAL_HISTORY_H

#include "tc_copy.h"

static void tc_signal_history(const void *x, const void *before, int32_t lines, int32_t fresh, int32_t held, void *after)
{
    const int32_t kept = held > fresh ? held - fresh : 0, taken = held - kept;
    const uint8_t *from = (const uint8_t *)x, *old = (const uint8_t *)before;
    uint8_t *to = (uint8_t *)after;

    for (int32_t line = 0; line < lines; line++, from += fresh, old += held, to += held) {
        tc_copy(to, old + held - kept, kept);
        tc_copy(to + kept, from + fresh - taken, taken);
    }
}

#endif
