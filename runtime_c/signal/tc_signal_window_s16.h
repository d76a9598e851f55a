/* SPDX-License-Identifier: 0BSD */
/* Lines of samples times a window: y = (x * w) >> shift, limited to int16 or, with `wraps`, modulo 2^16.
 *
 * The first `first` samples of a line lie at held + begin, the others at x + skip; x goes on from line to
 * line (first and skip are 0 where there are several). y may be x where first and skip are 0. No scratch.
 */
#ifndef TC_SIGNAL_WINDOW_S16_H
#define TC_SIGNAL_WINDOW_S16_H

#include "tc_math.h"

typedef struct {
    const int16_t *window; /* [n] */
    int32_t n, first, begin, skip, lines, shift, wraps;
} tc_signal_window_s16_t;

/* n samples of a line. */
typedef void tc_signal_window_part_t(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                     int32_t wraps, int16_t *y);

/* All lines, in two parts each. */
TC_INLINE void tc_signal_window_lines(const tc_signal_window_s16_t *p, const int16_t *x, const int16_t *held,
                                      int16_t *y, tc_signal_window_part_t *part)
{
    const int16_t *from = x + p->skip, *old = p->first > 0 ? held + p->begin : x;

    for (int32_t line = 0; line < p->lines; line++, y += p->n) {
        part(old, p->window, p->first, p->shift, p->wraps, y);
        part(from, p->window + p->first, p->n - p->first, p->shift, p->wraps, y + p->first);
        from += p->n - p->first;
    }
}

/* One sample after the other. */
static inline void tc_signal_window_part_s16(const int16_t *x, const int16_t *w, int32_t n, int32_t shift,
                                             int32_t wraps, int16_t *y)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = (x[i] * w[i]) >> shift;
        y[i] = (int16_t)(wraps ? v : tc_clamp(v, -32768, 32767));
    }
}

static TC_UNUSED void tc_signal_window_s16(const tc_signal_window_s16_t *p, const int16_t *x,
                                           const int16_t *held, int16_t *y)
{
    tc_signal_window_lines(p, x, held, y, tc_signal_window_part_s16);
}

#endif
