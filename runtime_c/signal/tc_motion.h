/* SPDX-License-Identifier: 0BSD */
/* How a sensor moved in a window of samples: what the kernels of motion share.
 *
 *   S = sum x, Q = sum x^2, z = window * x - S
 *   features: 0 S; 1 sqrt(window Q); 2 sqrt(window Q - S^2); 3, 4 window * least, largest x;
 *       5 changes of sides * 2^16
 *   peaks: the largest bins of the spectrum of z, each as its number * 2^16 and its size
 *
 * held [held] and x follow each other, with the axes side by side; the window begins at element `begin` of
 * both.
 */
#ifndef TC_MOTION_H
#define TC_MOTION_H

#include "tc_math.h"

#define TC_MOTION_PEAKS 8

typedef struct {
    const int8_t *features;
    const int16_t *cosine, *sine; /* [window], in 1/2^15: of peaks by sums */
    int32_t n, axes, window, begin, held, peaks, shift;
    const uint16_t *order; /* [window / 2] or null: where pairs of z go */
    int32_t up; /* z is shifted up by so many bits */
} tc_motion_s16_t;

/* Powers of bins, the largest first, and their numbers. */
typedef struct {
    uint64_t power[TC_MOTION_PEAKS];
    int32_t bin[TC_MOTION_PEAKS];
    int32_t found;
} tc_motion_peaks_t;

static inline int32_t tc_motion_root(uint64_t v)
{
    uint64_t root = 0;

    for (int32_t bit = 31; bit >= 0; bit--) {
        const uint64_t more = root | (uint64_t)1 << bit;
        if (more * more <= v) {
            root = more;
        }
    }
    return root > 0x7fffffffu ? 0x7fffffff : (int32_t)root;
}

/* A bin goes before those that are smaller. */
static inline void tc_motion_peak(tc_motion_peaks_t *best, int32_t peaks, int32_t bin, int32_t re, int32_t im)
{
    const uint64_t power = (uint64_t)((int64_t)re * re) + (uint64_t)((int64_t)im * im);
    int32_t k = best->found;

    if (k == peaks && power <= best->power[k - 1]) {
        return;
    }
    k = k < peaks ? best->found++ : peaks - 1;
    for (; k > 0 && power > best->power[k - 1]; k--) {
        best->power[k] = best->power[k - 1];
        best->bin[k] = best->bin[k - 1];
    }
    best->power[k] = power;
    best->bin[k] = bin;
}

/* Returns where the next results go. */
static inline int32_t *tc_motion_write_peaks(const tc_motion_peaks_t *best, int32_t *y)
{
    for (int32_t k = 0; k < best->found; k++) {
        *y++ = best->bin[k] * 65536;
        *y++ = tc_motion_root(best->power[k]);
    }
    return y;
}

/* Those of bins of a spectrum [half + 1][2], without the first and the last. */
static inline int32_t *tc_motion_spectrum_peaks(const int32_t *bins, int32_t half, int32_t peaks, int32_t *y)
{
    tc_motion_peaks_t best;

    best.found = 0;
    for (int32_t bin = 1; bin < half; bin++) {
        tc_motion_peak(&best, peaks, bin, bins[2 * bin], bins[2 * bin + 1]);
    }
    return tc_motion_write_peaks(&best, y);
}

static inline int32_t *tc_motion_place(const tc_motion_s16_t *p, int32_t *z, int32_t i)
{
    return p->order != 0 ? z + p->order[i >> 1] + (i & 1) : z + i;
}

/* z [window] of an axis, and its features to y. Returns where the next results go. */
static inline int32_t *tc_motion_axis(const tc_motion_s16_t *p, const int16_t *x, const int16_t *held,
                                      int32_t axis, int32_t *z, int32_t *y)
{
    const int32_t window = p->window;
    int32_t sum = 0, least = 32767, most = -32768, crossings = 0, before = 0;
    uint64_t squares = 0, power;

    for (int32_t i = 0; i < window; i++) {
        const int32_t at = p->begin + i * p->axes + axis;
        const int32_t v = at < p->held ? held[at] : x[at - p->held];
        *tc_motion_place(p, z, i) = v;
        sum += v;
        squares += (uint32_t)(v * v);
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    for (int32_t i = 0; i < window; i++) {
        int32_t *const place = tc_motion_place(p, z, i);
        const int32_t v = window * *place - sum;
        crossings += i > 0 && (v < 0) != (before < 0);
        *place = (int32_t)((uint32_t)v << p->up);
        before = v;
    }
    power = (uint64_t)window * squares;
    for (int32_t k = 0; k < p->n; k++) {
        switch (p->features[k]) {
        case 0: *y++ = sum; break;
        case 1: *y++ = tc_motion_root(power); break;
        case 2: *y++ = tc_motion_root(power - (uint64_t)((int64_t)sum * sum)); break;
        case 3: *y++ = window * least; break;
        case 4: *y++ = window * most; break;
        default: *y++ = crossings * 65536; break;
        }
    }
    return y;
}

#endif
