/* SPDX-License-Identifier: 0BSD */
/* Fully connected on cores without DSP instructions: two products in one multiplication, of weights that stay
 * int8.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * Modulo 2^32, (x1 + 2^16 x0) * (w0 + 2^16 w1) = x1 w0 + 2^16 (x0 w0 + x1 w1). Summed over a segment of taps,
 * the upper half is a part of the dot product, as long as it fits there and the sum of the x1 w0 fits the
 * lower half; the compiler chooses the segments so, and takes from weights what does not fit: `fixes` add it
 * again.
 *
 * A word of weights is four taps of an output, each plus 128: its bytes 0 and 2, and 1 and 3, are factors
 * after one AND. What the 128 are too much is known from the inputs, 2^7 (1 + 2^16) times the sum of their
 * factors, and every segment starts at minus that, plus 2^15 so that the lower half is not negative.
 *
 * bias already contains -x_zero * sum(w[o]). x [batch][in_c]. y [batch][out_c]; a row of x is read before its
 * outputs are written. w [out_c / 4][words][4], out_c rounded up to a multiple of 8, words: of a whole number
 * of segments, 128 beyond the last output and input. scratch: for each segment, its start and two factors for
 * each word. fixes [][output, place, weight] by outputs, then an output beyond the last; place: 2 times the
 * place of a factor in scratch, plus 1 for its upper half.
 */
#ifndef TC_SCALAR_PAIRS_H
#define TC_SCALAR_PAIRS_H

#include "tc_scalar.h"

typedef struct {
    const int32_t *w;
    const int16_t *fixes;
    tc_scalar_out_t out;
    int32_t batch, in_c, words;
    int32_t segment; /* words of each: 2 or 4 */
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_scalar_pairs_t;

/* x [segment][start, factors] times w [2][words][4] -> acc [8]. */
#if TC_RV32_ASM

/* a0 x, a1 and a2 weights, a3 acc, a4 end of the first, a5 mask, a6 and a7 a word's halves, t0 the sum of a
 * segment, t1 its start, its factors in s4-s11; the dot products in t2-t6, s0-s2. */
#define TC_SCALAR_PAIRS_ENTER                                                      \
    ".macro tc_word at, w, from, x0, x1\n"                                         \
    "lw     a6, \\at(\\w)\n"                                                       \
    "and    a7, a6, a5\n"                                                          \
    "srli   a6, a6, 8\n"                                                           \
    "and    a6, a6, a5\n"                                                          \
    "mul    a7, a7, \\x0\n"                                                        \
    "mul    a6, a6, \\x1\n"                                                        \
    "add    t0, \\from, a7\n"                                                      \
    "add    t0, t0, a6\n"                                                          \
    ".endm\n"                                                                      \
    ".macro tc_lane at, w, acc\n"                                                  \
    "tc_words \\at, \\w\n"                                                         \
    "srai   t0, t0, 16\n"                                                          \
    "add    \\acc, \\acc, t0\n"                                                    \
    ".endm\n"                                                                      \
    "addi   sp, sp, -48\n"                                                         \
    "sw     s0, 0(sp)\n"                                                           \
    "sw     s1, 4(sp)\n"                                                           \
    "sw     s2, 8(sp)\n"                                                           \
    "sw     s4, 12(sp)\n"                                                          \
    "sw     s5, 16(sp)\n"                                                          \
    "sw     s6, 20(sp)\n"                                                          \
    "sw     s7, 24(sp)\n"                                                          \
    "sw     s8, 28(sp)\n"                                                          \
    "sw     s9, 32(sp)\n"                                                          \
    "sw     s10, 36(sp)\n"                                                         \
    "sw     s11, 40(sp)\n"                                                         \
    "slli   a2, a2, 4\n"                                                           \
    "add    a2, a2, a1\n"                                                          \
    "mv     a4, a2\n"                                                              \
    "li     a5, 0x00ff00ff\n"                                                      \
    "li     t2, 0\n"                                                               \
    "li     t3, 0\n"                                                               \
    "li     t4, 0\n"                                                               \
    "li     t5, 0\n"                                                               \
    "li     t6, 0\n"                                                               \
    "li     s0, 0\n"                                                               \
    "li     s1, 0\n"                                                               \
    "li     s2, 0\n"                                                               \
    "1:\n"                                                                         \
    "lw     t1, 0(a0)\n"                                                           \
    "lw     s4, 4(a0)\n"                                                           \
    "lw     s5, 8(a0)\n"
#define TC_SCALAR_PAIRS_LEAVE(x, w)                                                \
    "tc_lane 0, a1, t2\n"                                                          \
    "tc_lane 4, a1, t3\n"                                                          \
    "tc_lane 8, a1, t4\n"                                                          \
    "tc_lane 12, a1, t5\n"                                                         \
    "tc_lane 0, a2, t6\n"                                                          \
    "tc_lane 4, a2, s0\n"                                                          \
    "tc_lane 8, a2, s1\n"                                                          \
    "tc_lane 12, a2, s2\n"                                                         \
    "addi   a0, a0, " x "\n"                                                       \
    "addi   a1, a1, " w "\n"                                                       \
    "addi   a2, a2, " w "\n"                                                       \
    "bne    a1, a4, 1b\n"                                                          \
    "sw     t2, 0(a3)\n"                                                           \
    "sw     t3, 4(a3)\n"                                                           \
    "sw     t4, 8(a3)\n"                                                           \
    "sw     t5, 12(a3)\n"                                                          \
    "sw     t6, 16(a3)\n"                                                          \
    "sw     s0, 20(a3)\n"                                                          \
    "sw     s1, 24(a3)\n"                                                          \
    "sw     s2, 28(a3)\n"                                                          \
    "lw     s0, 0(sp)\n"                                                           \
    "lw     s1, 4(sp)\n"                                                           \
    "lw     s2, 8(sp)\n"                                                           \
    "lw     s4, 12(sp)\n"                                                          \
    "lw     s5, 16(sp)\n"                                                          \
    "lw     s6, 20(sp)\n"                                                          \
    "lw     s7, 24(sp)\n"                                                          \
    "lw     s8, 28(sp)\n"                                                          \
    "lw     s9, 32(sp)\n"                                                          \
    "lw     s10, 36(sp)\n"                                                         \
    "lw     s11, 40(sp)\n"                                                         \
    "addi   sp, sp, 48\n"                                                          \
    "ret\n"                                                                        \
    ".purgem tc_word\n"                                                            \
    ".purgem tc_words\n"                                                           \
    ".purgem tc_lane\n"

static TC_NAKED void tc_scalar_pairs_2(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                              int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        ".macro tc_words at, w\n"
        "tc_word \\at, \\w, t1, s4, s5\n"
        "tc_word \\at+16, \\w, t0, s6, s7\n"
        ".endm\n"
        TC_SCALAR_PAIRS_ENTER
        "lw     s6, 12(a0)\n"
        "lw     s7, 16(a0)\n"
        TC_SCALAR_PAIRS_LEAVE("20", "32"));
}

static TC_NAKED void tc_scalar_pairs_4(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                              int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        ".macro tc_words at, w\n"
        "tc_word \\at, \\w, t1, s4, s5\n"
        "tc_word \\at+16, \\w, t0, s6, s7\n"
        "tc_word \\at+32, \\w, t0, s8, s9\n"
        "tc_word \\at+48, \\w, t0, s10, s11\n"
        ".endm\n"
        TC_SCALAR_PAIRS_ENTER
        "lw     s6, 12(a0)\n"
        "lw     s7, 16(a0)\n"
        "lw     s8, 20(a0)\n"
        "lw     s9, 24(a0)\n"
        "lw     s10, 28(a0)\n"
        "lw     s11, 32(a0)\n"
        TC_SCALAR_PAIRS_LEAVE("36", "64"));
}

#undef TC_SCALAR_PAIRS_ENTER
#undef TC_SCALAR_PAIRS_LEAVE

#elif TC_SCALAR_THUMB2

/* r0 x, r1 weights, r2 end of them, r3 mask, r4 start and r5-r8 factors of a segment, r9 and r10 dot products
 * of two outputs, r11, r12, lr a word's halves and the sum of the segment. */
#define TC_SCALAR_PAIRS_WORD(at, from, x0, x1)                                     \
    "ldr    r11, [r1, #" at "]\n"                                                  \
    "and    r12, r11, r3\n"                                                        \
    "and    r11, r3, r11, lsr #8\n"                                                \
    "mla    lr, r12, " x0 ", " from "\n"                                           \
    "mla    lr, r11, " x1 ", lr\n"
#define TC_SCALAR_PAIRS_ENTER                                                      \
    ".syntax unified\n"                                                            \
    "push   {r3-r11, lr}\n"                                                        \
    "add    r2, r1, r2, lsl #4\n"                                                  \
    "mov    r3, #0x00ff00ff\n"                                                     \
    "mov    r9, #0\n"                                                              \
    "mov    r10, #0\n"                                                             \
    ".p2align 2\n"                                                                 \
    "1:\n"
#define TC_SCALAR_PAIRS_LEAVE                                                      \
    "cmp    r1, r2\n"                                                              \
    "bne    1b\n"                                                                  \
    "pop    {r3}\n"                                                                \
    "strd   r9, r10, [r3]\n"                                                       \
    "pop    {r4-r11, pc}\n"

/* The dot products of two outputs. */
static TC_NAKED void tc_scalar_pairs_two2(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                                 int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        TC_SCALAR_PAIRS_ENTER
        "ldmia  r0!, {r4-r8}\n"
        TC_SCALAR_PAIRS_WORD("0", "r4", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("16", "lr", "r7", "r8")
        "add    r9, r9, lr, asr #16\n"
        TC_SCALAR_PAIRS_WORD("4", "r4", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("20", "lr", "r7", "r8")
        "add    r10, r10, lr, asr #16\n"
        "add    r1, r1, #32\n"
        TC_SCALAR_PAIRS_LEAVE);
}

static TC_NAKED void tc_scalar_pairs_two4(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                                 int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        TC_SCALAR_PAIRS_ENTER
        "ldmia  r0!, {r4-r8}\n"
        TC_SCALAR_PAIRS_WORD("0", "r4", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("16", "lr", "r7", "r8")
        "push   {lr}\n"
        TC_SCALAR_PAIRS_WORD("4", "r4", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("20", "lr", "r7", "r8")
        "ldmia  r0!, {r5-r8}\n"
        TC_SCALAR_PAIRS_WORD("36", "lr", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("52", "lr", "r7", "r8")
        "add    r10, r10, lr, asr #16\n"
        "pop    {lr}\n"
        TC_SCALAR_PAIRS_WORD("32", "lr", "r5", "r6")
        TC_SCALAR_PAIRS_WORD("48", "lr", "r7", "r8")
        "add    r9, r9, lr, asr #16\n"
        "add    r1, r1, #64\n"
        TC_SCALAR_PAIRS_LEAVE);
}

#undef TC_SCALAR_PAIRS_WORD
#undef TC_SCALAR_PAIRS_ENTER
#undef TC_SCALAR_PAIRS_LEAVE

#elif TC_SCALAR_THUMB1

/* r0 x, r1 weights, r2 and r3 factors, r4 and r5 a word's halves, r6 mask; dot products in r8 and r9, the
 * sums of the segment in r10 and r11, r12 end of the weights. */
#define TC_SCALAR_PAIRS_HALVES(at, sum)                                            \
    "ldr    r4, [r1, #" at "]\n"                                                   \
    "mov    r5, r4\n"                                                              \
    "ands   r5, r6\n"                                                              \
    "muls   r5, r2, r5\n"                                                          \
    "add    " sum ", r5\n"                                                         \
    "lsrs   r4, r4, #8\n"                                                          \
    "ands   r4, r6\n"                                                              \
    "muls   r4, r3, r4\n"                                                          \
    "add    " sum ", r4\n"
#define TC_SCALAR_PAIRS_WORD                                                       \
    "ldmia  r0!, {r2, r3}\n"                                                       \
    TC_SCALAR_PAIRS_HALVES("0", "r10")                                             \
    TC_SCALAR_PAIRS_HALVES("4", "r11")                                             \
    "adds   r1, #16\n"
#define TC_SCALAR_PAIRS_ENTER                                                      \
    ".syntax unified\n"                                                            \
    "push   {r3-r7, lr}\n"                                                         \
    "mov    r4, r8\n"                                                              \
    "mov    r5, r9\n"                                                              \
    "mov    r6, r10\n"                                                             \
    "mov    r7, r11\n"                                                             \
    "push   {r4-r7}\n"                                                             \
    "lsls   r2, r2, #4\n"                                                          \
    "adds   r2, r2, r1\n"                                                          \
    "mov    r12, r2\n"                                                             \
    "movs   r6, #255\n"                                                            \
    "lsls   r5, r6, #16\n"                                                         \
    "orrs   r6, r5\n"                                                              \
    "movs   r5, #0\n"                                                              \
    "mov    r8, r5\n"                                                              \
    "mov    r9, r5\n"                                                              \
    "1:\n"                                                                         \
    "ldmia  r0!, {r7}\n"                                                           \
    "mov    r10, r7\n"                                                             \
    "mov    r11, r7\n"
#define TC_SCALAR_PAIRS_LEAVE                                                      \
    "mov    r4, r10\n"                                                             \
    "asrs   r4, r4, #16\n"                                                         \
    "add    r8, r4\n"                                                              \
    "mov    r4, r11\n"                                                             \
    "asrs   r4, r4, #16\n"                                                         \
    "add    r9, r4\n"                                                              \
    "cmp    r1, r12\n"                                                             \
    "bne    1b\n"                                                                  \
    "mov    r2, r8\n"                                                              \
    "mov    r3, r9\n"                                                              \
    "pop    {r4-r7}\n"                                                             \
    "mov    r8, r4\n"                                                              \
    "mov    r9, r5\n"                                                              \
    "mov    r10, r6\n"                                                             \
    "mov    r11, r7\n"                                                             \
    "pop    {r4}\n"                                                                \
    "stmia  r4!, {r2, r3}\n"                                                       \
    "pop    {r4-r7, pc}\n"

/* The dot products of two outputs. */
static TC_NAKED void tc_scalar_pairs_two2(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                                 int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        TC_SCALAR_PAIRS_ENTER TC_SCALAR_PAIRS_WORD TC_SCALAR_PAIRS_WORD
        TC_SCALAR_PAIRS_LEAVE);
}

static TC_NAKED void tc_scalar_pairs_two4(const uint32_t *x TC_UNUSED, const uint32_t *w TC_UNUSED,
                                                 int32_t words TC_UNUSED, int32_t *acc TC_UNUSED)
{
    __asm__ volatile(
        TC_SCALAR_PAIRS_ENTER TC_SCALAR_PAIRS_WORD TC_SCALAR_PAIRS_WORD TC_SCALAR_PAIRS_WORD
        TC_SCALAR_PAIRS_WORD
        TC_SCALAR_PAIRS_LEAVE);
}

#undef TC_SCALAR_PAIRS_HALVES
#undef TC_SCALAR_PAIRS_WORD
#undef TC_SCALAR_PAIRS_ENTER
#undef TC_SCALAR_PAIRS_LEAVE

#else

#define TC_SCALAR_PAIRS(segment)                                                   \
    static TC_UNUSED void tc_scalar_pairs_##segment(const uint32_t *x, const uint32_t *w, int32_t words,     \
                                                    int32_t *acc)                                            \
    {                                                                              \
        for (int32_t o = 0; o < 8; o++) {                                          \
            const uint32_t *from = x, *word = w + (o & 4) * words + (o & 3);       \
            acc[o] = 0;                                                            \
            for (int32_t i = 0; i < words; i += (segment)) {                       \
                uint32_t sum = *from++;                                            \
                for (int32_t k = 0; k < (segment); k++, from += 2, word += 4) {    \
                    sum += from[0] * (*word & 0x00ff00ffu) + from[1] * (*word >> 8 & 0x00ff00ffu); \
                }                                                                  \
                acc[o] += (int32_t)sum >> 16;                                      \
            }                                                                      \
        }                                                                          \
    }
TC_SCALAR_PAIRS(2)
TC_SCALAR_PAIRS(4)
#undef TC_SCALAR_PAIRS

#endif

#if TC_SCALAR_THUMB1 || TC_SCALAR_THUMB2

#define TC_SCALAR_PAIRS(segment)                                                   \
    static TC_UNUSED void tc_scalar_pairs_##segment(const uint32_t *x, const uint32_t *w, int32_t words,     \
                                                    int32_t *acc)                                            \
    {                                                                              \
        tc_scalar_pairs_two##segment(x, w, words, acc);                            \
        tc_scalar_pairs_two##segment(x, w + 2, words, acc + 2);                    \
        tc_scalar_pairs_two##segment(x, w + 4 * words, words, acc + 4);            \
        tc_scalar_pairs_two##segment(x, w + 4 * words + 2, words, acc + 6);        \
    }
TC_SCALAR_PAIRS(2)
TC_SCALAR_PAIRS(4)
#undef TC_SCALAR_PAIRS

#endif

/* x [in_c] -> starts and factors of its segments. */
static inline void tc_scalar_pairs_inputs(const int8_t *x, int32_t in_c, int32_t words, int32_t segment,
                                          uint32_t *to)
{
    for (int32_t word = 0, i = 0; word < words;) {
        uint32_t *const start = to++;
        uint32_t sum = 0;
        for (int32_t k = 0; k < segment; k++, word++, i += 4, to += 2) {
            uint32_t taps[4];
            tc_clear((int32_t *)taps, 4);
            for (int32_t j = 0; j < 4 && i + j < in_c; j++) {
                taps[j] = (uint32_t)x[i + j];
            }
            to[0] = taps[2] + (taps[0] << 16);
            to[1] = taps[3] + (taps[1] << 16);
            sum += to[0] + to[1];
        }
        *start = 0x8000u - sum * 0x00800080u;
    }
}

static inline void tc_scalar_pairs_run(const tc_scalar_pairs_t *p, const int8_t *x, int8_t *y, void *scratch)
{
    uint32_t *const inputs = (uint32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const uint32_t *w = (const uint32_t *)(const void *)p->w;
        const int16_t *fix = p->fixes;
        tc_scalar_pairs_inputs(x, p->in_c, p->words, p->segment, inputs);
        for (int32_t o = 0; o < out_c; o += 8, w += 8 * p->words) {
            int32_t acc[8];
            if (p->segment == 2) {
                tc_scalar_pairs_2(inputs, w, p->words, acc);
            } else {
                tc_scalar_pairs_4(inputs, w, p->words, acc);
            }
            for (; fix[0] < o + 8; fix += 3) {
                const uint32_t factor = inputs[fix[1] >> 1];
                const int32_t tap = fix[1] & 1 ? (int32_t)(factor + 0x8000u) >> 16 : (int16_t)factor;
                acc[fix[0] - o] += tap * fix[2];
            }
            p->store(&p->out, acc, o, y + o);
            if (o + 4 < out_c) p->store(&p->out, acc + 4, o + 4, y + o + 4);
        }
    }
}

#define TC_SCALAR_PAIRS_HELD 32  /* words of taps that are on the stack as factors, */
#define TC_SCALAR_PAIRS_SUMS 64  /* and outputs that are there as sums */

/* Adds fixes of the outputs below `last`, and of inputs whose factors are `inputs`, places [least, end) of
 * all, to acc, which begins with output `first`; the first fix that is none of these. */
static inline const int16_t *tc_scalar_pairs_fix(const int16_t *fix, int32_t first, int32_t last,
                                                 const uint32_t *inputs, int32_t least, int32_t end,
                                                 int32_t *acc)
{
    for (; fix[0] < last && fix[1] >> 1 < end; fix += 3) {
        const uint32_t factor = inputs[(fix[1] >> 1) - least];
        const int32_t tap = fix[1] & 1 ? (int32_t)(factor + 0x8000u) >> 16 : (int16_t)factor;
        acc[fix[0] - first] += tap * fix[2];
    }
    return fix;
}

/* The same with factors on the stack, 128 inputs at a time. w: for each of these parts of the inputs as
 * above; fixes: for each 64 outputs those of one part after the other. */
static inline void tc_scalar_pairs_held(const tc_scalar_pairs_t *p, const int8_t *x, int8_t *y)
{
    const int32_t out_c = p->out.out_c, whole = (out_c + 7) & ~7;
    uint32_t inputs[TC_SCALAR_PAIRS_HELD * 5 / 2];
    int32_t acc[TC_SCALAR_PAIRS_SUMS];

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int16_t *fix = p->fixes;
        for (int32_t first = 0; first < out_c; first += TC_SCALAR_PAIRS_SUMS) {
            const int32_t last = whole - first < TC_SCALAR_PAIRS_SUMS ? whole : first + TC_SCALAR_PAIRS_SUMS;
            const uint32_t *w = (const uint32_t *)(const void *)p->w;
            int32_t place = 0;
            for (int32_t word = 0; word < p->words; word += TC_SCALAR_PAIRS_HELD) {
                const int32_t n = p->words - word < TC_SCALAR_PAIRS_HELD ? p->words - word
                    : TC_SCALAR_PAIRS_HELD;
                const int32_t places = 2 * n + n / p->segment;
                if (first == 0 || n < p->words) {
                    tc_scalar_pairs_inputs(x + 4 * word, p->in_c - 4 * word, n, p->segment, inputs);
                }
                for (int32_t o = first; o < last; o += 8) {
                    int32_t sums[8], *const to = acc + (o - first), *const these = word ? sums : to;
                    if (p->segment == 2) {
                        tc_scalar_pairs_2(inputs, w + o * n, n, these);
                    } else {
                        tc_scalar_pairs_4(inputs, w + o * n, n, these);
                    }
                    for (int32_t i = 0; word && i < 8; i++) {
                        to[i] += sums[i];
                    }
                }
                fix = tc_scalar_pairs_fix(fix, first, last, inputs, place, place + places, acc);
                place += places;
                w += whole * n;
            }
            for (int32_t o = first; o < last && o < out_c; o += 4) {
                p->store(&p->out, acc + (o - first), o, y + o);
            }
        }
    }
}

#endif
