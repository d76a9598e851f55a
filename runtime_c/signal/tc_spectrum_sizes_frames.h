/* SPDX-License-Identifier: 0BSD */
/* Magnitudes or powers of the spectra of frames, to int8 or int16: what tc_spectrum_sizes.h and
 * tc_spectrum_sizes_mixed.h share.
 *
 * For each frame, what tc_spectrum, tc_spectrum_power and (with power 1) roots compute one after the other is
 * m. With s the bits that the frame was shifted up by,
 *
 *   y = zero + round(floor(m * mult / 2^(32 power)) / 2^(shift + power * s)), at most `most`
 */
#ifndef TC_SPECTRUM_SIZES_FRAMES_H
#define TC_SPECTRUM_SIZES_FRAMES_H

#include "tc_spectrum_power.h"
#include "tc_spectrum_roots.h"
#include "tc_spectrum_taper.h"

typedef struct {
    const int32_t *window, *twiddles, *split; /* of tc_spectrum_t */
    int32_t n, half, radix;
    int32_t mult, shift, zero, most; /* mult in [2^30, 2^31), shift at least 1 */
    int32_t power, bins, wide; /* wide: y is int16 */
    int32_t step, frames, lines, line; /* frames of a line, and its samples */
} tc_spectrum_sizes_t;

/* The parameters of a frame's transform; `begin` is left to be set. */
static inline tc_spectrum_t tc_spectrum_sizes_spectrum(const tc_spectrum_sizes_t *p)
{
    const tc_spectrum_t spectrum = {p->window, p->twiddles, p->split, p->n, 0, 0, 0, p->half, p->radix};
    return spectrum;
}

static inline uint32_t tc_upper_unsigned(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* The upper word of a product with a power of two words, of which the upper word is kept: below 2^30. */
static inline uint32_t tc_spectrum_sizes_part(const uint32_t *m, uint32_t mult)
{
    const uint64_t product = (uint64_t)m[1] * mult + tc_upper_unsigned(m[0], mult);
    return (uint32_t)(product >> 32);
}

static inline void tc_spectrum_sizes_put(const tc_spectrum_sizes_t *p, int32_t v, int32_t k, int8_t *y)
{
    if (p->wide) {
        ((int16_t *)(void *)y)[k] = (int16_t)v;
    } else {
        y[k] = (int8_t)v;
    }
}

/* m: numbers of one word, or of two -> y [bins]. */
static inline void tc_spectrum_sizes_scale(const tc_spectrum_sizes_t *p, const uint32_t *m, int32_t scale,
                                           int8_t *y)
{
    const int32_t asked = p->shift + p->power * scale, down = asked < 31 ? asked : 31;
    const int32_t count = p->bins <= p->half ? p->bins : p->half + 1, room = p->most - p->zero;
    const uint32_t mult = (uint32_t)p->mult, half = (uint32_t)1 << (down - 1);

    for (int32_t k = 0; k < count; k++, m += p->power) {
        const uint32_t part = p->power == 1 ? tc_upper_unsigned(m[0], mult) : tc_spectrum_sizes_part(m, mult);
        const uint32_t steps = (part + half) >> down;
        const int32_t v = p->zero + (steps < (uint32_t)room ? (int32_t)steps : room);
        tc_spectrum_sizes_put(p, v, k, y);
        if (2 * p->half - k < p->bins) {
            tc_spectrum_sizes_put(p, v, 2 * p->half - k, y);
        }
    }
}

/* A frame's bins, with the scale of its samples -> y [bins]. The bins of the spectrum are lost. */
static inline void tc_spectrum_sizes_frame(const tc_spectrum_sizes_t *p, int32_t *bins, int32_t scale,
                                           int8_t *y)
{
    uint32_t *const m = (uint32_t *)(void *)bins;
    const int32_t count = p->bins <= p->half ? p->bins : p->half + 1;

    tc_spectrum_power(bins, 0, count, m);
    if (p->power == 1) {
        tc_spectrum_roots(m, count, m);
    }
    tc_spectrum_sizes_scale(p, m, scale, y);
}

/* From one frame's output to the next one's, in bytes. */
static inline int32_t tc_spectrum_sizes_bytes(const tc_spectrum_sizes_t *p)
{
    return p->wide ? 2 * p->bins : p->bins;
}

#endif
