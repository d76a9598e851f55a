/* SPDX-License-Identifier: 0BSD */
/* How a sensor moved in a window of samples, axis by axis.
 *
 *   S = sum x, Q = sum x^2, z = window * x - S
 *   features: 0 S; 1 sqrt(window Q); 2 sqrt(window Q - S^2); 3, 4 window * least, largest x; 5 changes of sides * 2^16
 *   peaks: the largest bins of the spectrum of z, each as its number * 2^16 and its size
 *
 * held [held] and x follow each other, with the axes side by side; the window begins at element `begin` of both. cosine, sine
 * [window] in 1/2^15, not read without peaks. work [window]: scratch. y [axes][n + 2 peaks], may not overlap x.
 */
#ifndef TC_MOTION_S16_H
#define TC_MOTION_S16_H

#include "tc_math.h"

typedef struct {
    const int8_t *features;
    const int16_t *cosine, *sine;
    int32_t n, axes, window, begin, held, peaks, shift;
} tc_motion_s16_t;

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

static inline int32_t tc_motion_size(const tc_motion_s16_t *p, const int32_t *z, int32_t bin)
{
    int64_t re = 0, im = 0;
    int32_t turn = 0;

    for (int32_t i = 0; i < p->window; i++) {
        re += (int64_t)z[i] * p->cosine[turn];
        im += (int64_t)z[i] * p->sine[turn];
        turn += bin;
        turn -= turn >= p->window ? p->window : 0;
    }
    re >>= p->shift;
    im >>= p->shift;
    return tc_motion_root((uint64_t)(re * re) + (uint64_t)(im * im));
}

/* Peaks, kept in order while they are found: a bin goes before those that are smaller. */
static inline void tc_motion_peaks(const tc_motion_s16_t *p, const int32_t *z, int32_t *y)
{
    for (int32_t k = 0; k < p->peaks; k++) {
        y[2 * k] = 0;
        y[2 * k + 1] = -1;
    }
    for (int32_t bin = 1; p->peaks > 0 && bin <= (p->window - 1) / 2; bin++) {
        const int32_t size = tc_motion_size(p, z, bin);
        int32_t k = p->peaks;
        for (; k > 0 && size > y[2 * k - 1]; k--) {
            if (k < p->peaks) {
                y[2 * k] = y[2 * k - 2];
                y[2 * k + 1] = y[2 * k - 1];
            }
        }
        if (k < p->peaks) {
            y[2 * k] = bin * 65536;
            y[2 * k + 1] = size;
        }
    }
}

static void tc_motion_s16(const tc_motion_s16_t *p, const int16_t *x, const int16_t *held, void *work, int32_t *y)
{
    int32_t *z = (int32_t *)work;
    const int32_t window = p->window;

    for (int32_t axis = 0; axis < p->axes; axis++) {
        int32_t sum = 0, least = 32767, most = -32768, crossings = 0;
        uint64_t squares = 0;
        for (int32_t i = 0; i < window; i++) {
            const int32_t at = p->begin + i * p->axes + axis;
            const int32_t v = at < p->held ? held[at] : x[at - p->held];
            z[i] = v;
            sum += v;
            squares += (uint32_t)(v * v);
            least = v < least ? v : least;
            most = v > most ? v : most;
        }
        for (int32_t i = 0; i < window; i++) {
            z[i] = window * z[i] - sum;
            crossings += i > 0 && (z[i] < 0) != (z[i - 1] < 0);
        }
        const uint64_t power = (uint64_t)window * squares;
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
        tc_motion_peaks(p, z, y);
        y += 2 * p->peaks;
    }
}

#endif
