/* SPDX-License-Identifier: 0BSD */
/* What the functions compute that the compiler writes for single layers with Helium (MVE: Cortex-M55, M85),
 * in plain C.
 *
 * Sums of products become int8 in vectors of four lanes, each lane with constants of its channel:
 *
 *   X = sum * 2^scale + start,   h = high word of X * mult [+ add],   y = saturate8(h / 2^shift), clamped
 *
 * to nearest, halves up (down where channels have shifts of their own). With `sign`, the high word is rounded
 * and 1 is subtracted for X < 0, before add. Constants of four channels are vectors in a row: start, mult[,
 * add][, minus shift], the last where shifts differ. Start holds bias, zero points and rounding.
 */
#ifndef TC_MVE_H
#define TC_MVE_H

#include "tc_dsp.h"

#if TC_GNU && defined(__ARM_FEATURE_MVE) && defined(__ARM_FEATURE_UNALIGNED) && (__ARM_FEATURE_MVE & 1) &&   \
    !defined(__ARM_BIG_ENDIAN)
#define TC_MVE_ASM 1
#else
#define TC_MVE_ASM 0
#endif

#if TC_GNU && !TC_MVE_ASM && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
#pragma message("made for a core with Helium, compiled without: slow; -DTC_PORTABLE if meant")
#endif
#endif

static inline int32_t tc_mve_least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

#if !TC_MVE_ASM

typedef struct {
    int32_t scale, shift;
    int32_t add, sign, varies; /* varies: each channel has its shift */
    int32_t y_min, y_max;
} tc_mve_requant_t;

static inline int32_t tc_mve_wrap(int64_t x) /* modulo 2^32 */
{
    return (int32_t)(uint32_t)(uint64_t)x;
}

/* One lane: constants of its channel are 4 words apart. */
static inline int8_t tc_mve_lane(const tc_mve_requant_t *p, int32_t sum, const int32_t *constants)
{
    const int32_t x = tc_mve_wrap((int64_t)sum * ((int64_t)1 << p->scale) + constants[0]);
    const int64_t product = (int64_t)x * constants[4];
    int32_t h = (int32_t)(p->sign ? ((product + 0x80000000LL) >> 32) - (x < 0) : product >> 32);
    if (p->add) h = tc_mve_wrap((int64_t)h + constants[8]);
    h = p->varies ? h >> -constants[12] : (int32_t)(((int64_t)h + (1 << (p->shift - 1))) >> p->shift);
    return (int8_t)tc_clamp(h, p->y_min, p->y_max);
}

static inline int32_t tc_mve_constants(const tc_mve_requant_t *p) /* words of four channels */
{
    return 4 * (2 + p->add + p->varies);
}

/* Layers as dot products of 16 taps at a time.
 *
 * A window is k_h rows of row_taps consecutive bytes; the windows of pixels are pixel_bytes apart. stream:
 * for each `group` output channels (4, or 8 where one pixel is made) the weights of each 16 taps of a row, 16
 * bytes for each channel, a row's last ones filled up with zeros; then the constants of each four channels.
 * `paired`: of eight channels the even ones come first. Channels beyond out_c are made and not stored. Two
 * pixels at a time; `held`: both are read before their outputs are written, which may lie over them.
 */
typedef struct {
    int32_t k_h, row_taps, pixel_bytes, out_c;
    int32_t group, paired, held;
    tc_mve_requant_t requant;
} tc_mve_dot_t;

#define TC_MVE_HELD 64 /* taps that vectors hold, at most */

/* The sum of one channel, whose place in a group of the stream is `place`. */
static inline int32_t tc_mve_sum(const tc_mve_dot_t *p, const int32_t *stream, int32_t place,
                                 const int8_t *const *x, int32_t first)
{
    const int8_t *w = (const int8_t *)stream + 16 * place;
    int32_t sum = 0;
    for (int32_t row = 0; row < p->k_h; row++) {
        for (int32_t at = 0; at < p->row_taps; at++) {
            sum += x[row][first + at] * w[at % 16];
            if (at % 16 == 15 || at == p->row_taps - 1) w += 16 * p->group;
        }
    }
    return sum;
}

/* n pixels -> y [n][out_c]. x: k_h rows, the first window at byte `first` of each. */
static TC_UNUSED void tc_mve_pixels(const tc_mve_dot_t *p, const int32_t *stream, const int8_t *const *x,
                                    int8_t *y, int32_t n, int32_t first)
{
    const int32_t steps = p->k_h * ((p->row_taps + 15) / 16);
    const int32_t constants = tc_mve_constants(&p->requant);
    for (int32_t i = 0; i < n; i += 2) {
        const int32_t pixels = n - i < 2 ? 1 : 2;
        const int32_t *group = stream;
        int8_t taps[2][TC_MVE_HELD];
        for (int32_t k = 0; p->held && k < pixels * p->row_taps; k++) {
            taps[k / p->row_taps][k % p->row_taps] = x[0][first + k / p->row_taps * p->pixel_bytes +
                k % p->row_taps];
        }
        for (int32_t place = 0; place < (p->out_c + 7) / 8 * 8; place++) {
            const int32_t in = place % p->group;
            const int32_t quad = p->group == 8 ? in % 2 : 0;
            const int32_t *at = group + 4 * p->group * steps + quad * constants + (p->group == 8 ? in / 2
                : in);
            int32_t channel = place;
            if (p->paired && p->group == 4) channel = place / 8 * 8 + place % 4 * 2 + place / 4 % 2;
            if (place / p->group * p->group >= p->out_c) break;
            for (int32_t k = 0; k < pixels && channel < p->out_c; k++) {
                const int8_t *held = taps[k];
                const int32_t sum = p->held ? tc_mve_sum(p, group, in, &held, 0)
                                            : tc_mve_sum(p, group, in, x, first + k * p->pixel_bytes);
                y[(i + k) * p->out_c + channel] = tc_mve_lane(&p->requant, sum, at);
            }
            if (in == p->group - 1) group += 4 * p->group * steps + p->group / 4 * constants;
        }
        first += 2 * p->pixel_bytes;
    }
}

/* The windows of n pixels one after the other: k_h rows of `run` bytes, from byte `first` of x[k] on and
 * pixel_bytes from pixel to pixel -> to [n][slot], zeros behind the taps. */
static TC_UNUSED void tc_mve_columns(const int8_t *const *x, int32_t first, int32_t n, int8_t *to,
                                     int32_t k_h, int32_t run, int32_t pixel_bytes, int32_t slot)
{
    for (int32_t i = 0; i < n; i++) {
        for (int32_t at = 0; at < slot; at++) {
            to[i * slot + at] = at < k_h * run ? x[at / run][first + i * pixel_bytes + at % run] : 0;
        }
    }
}

/* Depthwise layers as dot products of windows that are gathered.
 *
 * Four lines of an image are interleaved, so that a word holds the four values of one place and channel;
 * places are word_bytes apart. A gather is the words of four places: 16 values, in which up to four windows
 * lie, `shift` bytes further each. record: of each channel 8 zeros, 16 weights, start / 2, mult[, add][,
 * minus shift].
 */
typedef struct {
    int32_t windows, places;           /* of a gather; places of those of a line */
    int32_t count, gather_bytes;       /* gathers, and bytes from one to the next */
    int32_t word_bytes;
    int32_t outputs, out_place;        /* of a line, and bytes from one to the next */
    int32_t shift[4], line[4], place[4]; /* of a window: shift of the weights, line and place of its output */
    tc_mve_requant_t requant;
} tc_mve_tile_t;

/* Channels [at, at + width) of four lines, whose places are `step` bytes apart, interleaved; `left` and
 * `right` places of x_zero around them. there: bits of the lines that are inside the image. last: lines of
 * the last place. */
static TC_UNUSED void tc_mve_lines(const int8_t *const *x, int32_t at, int8_t *to, int32_t channels,
                                   int32_t count, int32_t step, int32_t width, int32_t there, int32_t last,
                                   int32_t left, int32_t right, int32_t x_zero)
{
    for (int32_t i = -left; i < count + right; i++) {
        for (int32_t c = 0; c < width; c++) {
            for (int32_t line = 0; line < 4; line++) {
                const int32_t is_there = (there >> line & 1) && i >= 0 && i < count && (i < count - 1 ||
                    line < last);
                *to++ = !is_there ? (int8_t)x_zero : c < channels ? x[line][at + i * step + c] : 0;
            }
        }
    }
}

/* y, y1: the first and the second line of outputs. */
static TC_UNUSED void tc_mve_tile(const tc_mve_tile_t *p, const int32_t *record, const int8_t *from,
                                  int8_t *y, int8_t *y1, int32_t channels)
{
    for (int32_t c = 0; c < channels; c++) {
        const int8_t *w = (const int8_t *)record + 8;
        const int32_t *constants = record + 6;
        int32_t spread[13]; /* as vectors have them */
        tc_clear(spread, 13);
        for (int32_t i = 0; i < 2 + p->requant.add + p->requant.varies; i++) {
            spread[4 * i] = constants[i];
        }
        spread[0] = tc_mve_wrap((int64_t)spread[0] * 2);
        for (int32_t i = 0; i < p->count * p->windows; i++) {
            const int32_t window = i % p->windows, gather = i / p->windows;
            const int32_t place = gather * p->places + p->place[window];
            const int8_t *words = from + gather * p->gather_bytes + 4 * c;
            int32_t sum = 0;
            for (int32_t k = p->shift[window]; k < 16; k++) {
                sum += words[k / 4 * p->word_bytes + k % 4] * w[k - p->shift[window]];
            }
            int8_t *const line = p->line[window] ? y1 : y;
            if (place < p->outputs) line[place * p->out_place + c] = tc_mve_lane(&p->requant, sum, spread);
        }
        record += 6 + 2 + p->requant.add + p->requant.varies;
    }
}

/* Depthwise layers of one window that is the whole image: x [taps][channels] -> y [channels]. stream: for
 * each eight channels the weights [taps][8], then the vectors of constants of the even and of the odd ones.
 */
static TC_UNUSED void tc_mve_window(const tc_mve_requant_t *p, const int32_t *stream, const int8_t *x,
                                    int8_t *y, int32_t taps, int32_t channels)
{
    const int32_t quad = tc_mve_constants(p);
    for (int32_t c = 0; c < channels; c++) {
        const int32_t *at = stream + c / 8 * (2 * taps + 2 * quad);
        const int8_t *w = (const int8_t *)at + c % 8;
        int32_t sum = 0;
        for (int32_t i = 0; i < taps; i++) {
            sum += x[i * channels + c] * w[8 * i];
        }
        y[c] = tc_mve_lane(p, sum, at + 2 * taps + c % 2 * quad + c % 8 / 2);
    }
}

#endif

#endif
