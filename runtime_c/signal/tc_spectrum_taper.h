/* SPDX-License-Identifier: 0BSD */
/* Samples times a window, scaled up as far as they go: y = (w * p * 2^s + 2^31) >> 32, where p is 2^15 v[i],
 * or with an emphasis 2^14 v[i] - emphasis * v[i - 1]. Pairs of y are points in bit-reversed order, zeros
 * beyond n.
 *
 * v: n samples from `begin` on of `held` samples from before and those of x, one after the other. All numbers
 * are even. s = 15 - bits of the largest |v|, at least 0; v[-1] counts where it is used. w up to 2^31 / radix
 * of the transform, which keeps products within int32. y [2 half].
 */
#ifndef TC_SPECTRUM_TAPER_H
#define TC_SPECTRUM_TAPER_H

#include "tc_signal_dsp.h"
#include "tc_spectrum_math.h"

typedef struct {
    const int32_t *window; /* [n] */
    const int32_t *twiddles, *split; /* of the transform */
    int32_t n, begin, held, emphasis;
    int32_t half, radix; /* of the transform: points; of the first step */
} tc_spectrum_t;

/* Bits of pairs of samples without their signs, or'ed in both halves. */
static inline uint32_t tc_taper_bits(const int16_t *x, int32_t n)
{
    const int16_t *const end = x + (n & ~7), *const rest = x + n;
    uint32_t both = 0;

    for (; x < end; x += 8) {
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(x)) |
            (uint32_t)tc_magnitudes((int32_t)tc_load_word(x + 2));
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(x + 4)) |
            (uint32_t)tc_magnitudes((int32_t)tc_load_word(x + 6));
    }
    for (; x < rest; x += 2) {
        both |= (uint32_t)tc_magnitudes((int32_t)tc_load_word(x));
    }
    return both;
}

/* Where point i lies: `at` is i in the uppermost bits. */
static inline int32_t *tc_taper_place(int32_t *y, uint32_t at)
{
    return y + 2 * tc_bits_reversed(at);
}

/* How samples become points. at: the first point, next: what it grows by; both: -emphasis and, in the upper
 * half, 2^14; up: the bits to shift up by; before: the sample before the first in the upper half. */
typedef struct {
    int32_t *y;
    uint32_t at, next;
    int32_t both, up, before;
} tc_taper_t;

static inline void tc_taper_pair(const int16_t *x, const int32_t *w, tc_taper_t *taper, int32_t *to)
{
    const int32_t pair = (int32_t)tc_load_word(x), both = taper->both;
    const int32_t re = tc_smlatb(taper->before, both, tc_smlabt(pair, both, 0)), im = tc_smlad(pair, both, 0);

    to[0] = tc_upper((int32_t)((uint32_t)re << taper->up), w[0]);
    to[1] = tc_upper((int32_t)((uint32_t)im << taper->up), w[1]);
    taper->before = pair;
}

/* Samples from x to end. Afterwards `taper` is that of those behind them. */
static inline void tc_taper_pairs(const int16_t *x, const int32_t *w, const int16_t *end, tc_taper_t *taper)
{
    for (; x < end; x += 2, w += 2, taper->at += taper->next) {
        tc_taper_pair(x, w, taper, tc_taper_place(taper->y, taper->at));
    }
}

#if TC_DSP_ASM

/* The same for a multiple of 4 samples, at least 4.
 *
 * r4: y, r5: at, r6: next, r7: both, r8: up, r9: before. */
static TC_NAKED void tc_taper_fours(const int16_t *x TC_UNUSED, const int32_t *w TC_UNUSED,
                                    const int16_t *end TC_UNUSED, tc_taper_t *taper TC_UNUSED)
{
/* before: the pair before, in which the new one is kept in the other turn */
#define TC_TAPER_POINT(before, pair)                                               \
    "ldr    " pair ", [r0], #4\n"                                                  \
    "rbit   r12, r5\n"                                                             \
    "add    r12, r4, r12, lsl #3\n"                                                \
    "add    r5, r5, r6\n"                                                          \
    "smulbt r11, " pair ", r7\n"                                                   \
    "smlatb r11, " before ", r7, r11\n"                                            \
    "smuad  r3, " pair ", r7\n"                                                    \
    "lsl    r11, r11, r8\n"                                                        \
    "lsl    r3, r3, r8\n"                                                          \
    "ldr    lr, [r1], #4\n"                                                        \
    "smmulr r11, r11, lr\n"                                                        \
    "ldr    lr, [r1], #4\n"                                                        \
    "smmulr r3, r3, lr\n"                                                          \
    "strd   r11, r3, [r12]\n"
    __asm__ volatile(
        ".syntax unified\n"
        "push   {r3-r11, lr}\n"
        "ldm    r3, {r4-r9}\n"
        ".p2align 2\n"
        "1:\n"
        TC_TAPER_POINT("r9", "r10")
        TC_TAPER_POINT("r10", "r9")
        "cmp    r0, r2\n"
        "bne    1b\n"
        "pop    {r3}\n"
        "str    r5, [r3, #4]\n"
        "str    r9, [r3, #20]\n"
        "pop    {r4-r11, pc}\n");
#undef TC_TAPER_POINT
}

#endif

static inline void tc_taper_part(const int16_t *x, const int32_t *w, int32_t n, tc_taper_t *taper)
{
    const int32_t fours = TC_DSP_ASM ? n & ~3 : 0;

#if TC_DSP_ASM
    if (fours > 0) {
        tc_taper_fours(x, w, x + fours, taper);
    }
#endif
    tc_taper_pairs(x + fours, w + fours, x + n, taper);
}

/* Where the n samples lie: `old` at first, the others at second. scale: s, before: v[-1] in the upper half, 0
 * where it is not used. */
typedef struct {
    const int16_t *first, *second;
    int32_t old, scale, before;
} tc_taper_samples_t;

static inline tc_taper_samples_t tc_taper_samples(const tc_spectrum_t *p, const int16_t *x,
                                                  const int16_t *held)
{
    const int32_t there = p->held - p->begin, old = there < 0 ? 0 : there < p->n ? there : p->n;
    const int16_t *const first = old > 0 ? held + p->begin : x - there, *const second = old > 0 ? x : first;
    tc_taper_samples_t found = {first, second, old, 0, 0};
    uint32_t bits = tc_taper_bits(first, old) | tc_taper_bits(second, p->n - old);
    int32_t s;

    if (p->emphasis != 0) {
        const int32_t before = p->begin <= p->held ? held[p->begin - 1] : first[-1];
        found.before = (int32_t)((uint32_t)before << 16);
        bits |= (uint32_t)(before < 0 ? -before : before);
    }
    s = 15 - tc_signal_bits((bits | bits >> 16) & 0xffff);
    found.scale = s < 0 ? 0 : s;
    return found;
}

static inline tc_taper_t tc_taper_begin(const tc_spectrum_t *p, const tc_taper_samples_t *v, int32_t *y,
                                        uint32_t next)
{
    const tc_taper_t taper = {y, 0, next, tc_pkhbt(-p->emphasis, 1 << 14),
        p->emphasis != 0 ? v->scale : v->scale + 1, v->before};
    return taper;
}

/* Zeros for the points behind the samples. */
static inline void tc_taper_nothing(const tc_spectrum_t *p, tc_taper_t *taper)
{
    for (int32_t i = p->n / 2; i < p->half; i++, taper->at += taper->next) {
        int32_t *const to = tc_taper_place(taper->y, taper->at);
        to[0] = 0;
        to[1] = 0;
    }
}

/* Returns s. */
static inline int32_t tc_spectrum_taper(const tc_spectrum_t *p, const int16_t *x, const int16_t *held,
                                        int32_t *y)
{
    const tc_taper_samples_t v = tc_taper_samples(p, x, held);
    tc_taper_t taper = tc_taper_begin(p, &v, y, 0x80000000u / (uint32_t)p->half * 2);

    tc_taper_part(v.first, p->window, v.old, &taper);
    tc_taper_part(v.second, p->window + v.old, p->n - v.old, &taper);
    tc_taper_nothing(p, &taper);
    return v.scale;
}

#endif
