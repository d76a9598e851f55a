/* SPDX-License-Identifier: 0BSD */
/* Lines of samples times a window: y = (x * w) >> shift, limited to int16 or, with `wraps`, modulo 2^16.
 *
 * The first `first` samples of a line lie at held + begin, the others at x + skip; x goes on from line to
 * line (first and skip are 0 where there are several). y may be x where first and skip are 0. No scratch.
 */
#ifndef TC_SIGNAL_WINDOW_S16_H
#define TC_SIGNAL_WINDOW_S16_H

#include "tc_signal_window.h"

static void tc_signal_window_s16(const tc_signal_window_s16_t *p, const int16_t *x, const int16_t *held,
                                 int16_t *y)
{
    const int16_t *from = x + p->skip, *old = p->first > 0 ? held + p->begin : x;

    for (int32_t line = 0; line < p->lines; line++, y += p->n) {
        tc_signal_window_part_s16(old, p->window, p->first, p->shift, p->wraps, y);
        tc_signal_window_part_s16(from, p->window + p->first, p->n - p->first, p->shift, p->wraps,
                                  y + p->first);
        from += p->n - p->first;
    }
}

#endif
