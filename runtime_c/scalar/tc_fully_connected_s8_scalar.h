/* SPDX-License-Identifier: 0BSD */
/* Fully connected on a core without DSP instructions (tc_scalar.h), four outputs at a time.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing.
 * x [batch][in_c]. y [batch][out_c], may not overlap x. w [out_c / 4][taps][4], taps = in_c rounded up to a
 * multiple of 4, zeros beyond the last output and input. scratch: a word for each tap. acc cannot overflow:
 * the compiler bounds it.
 */
#ifndef TC_FULLY_CONNECTED_S8_SCALAR_H
#define TC_FULLY_CONNECTED_S8_SCALAR_H

#include "tc_scalar.h"
#include "tc_scalar_dense.h"

typedef struct {
    const int8_t *w;
    tc_scalar_out_t out;
    int32_t batch, in_c, taps;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_fully_connected_s8_scalar_t;

static TC_UNUSED void tc_fully_connected_s8_scalar(const tc_fully_connected_s8_scalar_t *p, const int8_t *x,
                                                   int8_t *y, void *scratch)
{
    int32_t *const wide = (int32_t *)scratch;
    const int32_t out_c = p->out.out_c;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        for (int32_t i = 0; i < p->in_c; i++) {
            wide[i] = x[i];
        }
        for (int32_t i = p->in_c; i < p->taps; i++) {
            wide[i] = 0;
        }
        for (int32_t o = 0; o < out_c; o += 4) {
            int32_t acc[4];
            tc_scalar_dense4(wide, p->w + o * p->taps, p->taps >> 2, acc);
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#define TC_SCALAR_HELD 64  /* inputs on the stack, */
#define TC_SCALAR_SUMS 64  /* and outputs that are there as sums */

/* x [n], then zeros -> words [taps], n in taps - 3 .. taps; the sum of them. */
static inline int32_t tc_scalar_widen(const int8_t *x, int32_t n, int32_t taps, int32_t *to)
{
    int32_t sum = 0;
    for (const int8_t *const end = x + n; x < end; x++) {
        *to++ = *x;
        sum += *x;
    }
    tc_clear(to, taps - n);
    return sum;
}

/* 64 inputs and 64 sums at a time on the stack, 512 bytes, in place of a scratch for all inputs; also with
 * weights that have a zero point: the weight of an input is w + offset. The products of the inputs with the
 * offset are those of their sum, which all outputs share. A row of x is read before its outputs are written
 * if it has at most 64 inputs, or 64 outputs. */
static TC_UNUSED void tc_fully_connected_s8_held_scalar(const tc_fully_connected_s8_scalar_t *p,
                                                        const int8_t *x, int8_t *y, int32_t offset)
{
    const int32_t out_c = p->out.out_c, several = p->taps > TC_SCALAR_HELD;
    int32_t wide[TC_SCALAR_HELD], acc[TC_SCALAR_SUMS];

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        int32_t sum = 0;
        for (int32_t first = 0; first < out_c; first += TC_SCALAR_SUMS) {
            const int32_t last = out_c - first < TC_SCALAR_SUMS ? out_c : first + TC_SCALAR_SUMS;
            if (several) sum = 0;
            for (int32_t from = 0; from < p->taps; from += TC_SCALAR_HELD) {
                const int32_t n = p->taps - from < TC_SCALAR_HELD ? p->taps - from : TC_SCALAR_HELD;
                if (first == 0 || several) {
                    const int32_t left = p->in_c - from;
                    sum += tc_scalar_widen(x + from, left < n ? left : n, n, wide);
                }
                for (int32_t o = first; o < last; o += 4) {
                    int32_t *const to = acc + (o - first), more[4];
                    tc_scalar_dense4(wide, p->w + o * p->taps + 4 * from, n >> 2, from ? more : to);
                    for (int32_t i = 0; from && i < 4; i++) {
                        to[i] += more[i];
                    }
                }
            }
            for (int32_t i = 0; i < last - first; i++) {
                acc[i] += sum * offset;
            }
            for (int32_t o = first; o < last; o += 4) {
                p->store(&p->out, acc + (o - first), o, y + o);
            }
        }
    }
}

#undef TC_SCALAR_HELD
#undef TC_SCALAR_SUMS

/* ---- int4 weights ---- */

/* w [out_c / 4][words]: a word has the weights of two inputs s, t, from the lowest bits s0 s1 s2 s3 t0 t1 t2
 * t3, zeros beyond the last output and input. No scratch. */
typedef struct {
    const int32_t *w;
    tc_scalar_out_t out;
    int32_t batch, in_c;
    void (*store)(const tc_scalar_out_t *p, const int32_t *acc, int32_t o, int8_t *y);
} tc_fully_connected_s8_w4_scalar_t;

/* The four lowest bits below bit `top` of a word. */
#define TC_SCALAR_BITS(word, top) ((int32_t)((uint32_t)(word) << (32 - (top))) >> 28)

/* x [n] times w [(n + 1) / 2] -> acc [4]. */
static TC_UNUSED void tc_scalar_dense_nibbles(const int8_t *x, const int32_t *w, int32_t n, int32_t *acc)
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (const int8_t *const end = x + (n & ~1); x < end; x += 2, w++) {
        const int32_t s = x[0], t = x[1], word = *w;
        a += s * TC_SCALAR_BITS(word, 4);
        a += t * TC_SCALAR_BITS(word, 20);
        b += s * TC_SCALAR_BITS(word, 8);
        b += t * TC_SCALAR_BITS(word, 24);
        c += s * TC_SCALAR_BITS(word, 12);
        c += t * TC_SCALAR_BITS(word, 28);
        d += s * TC_SCALAR_BITS(word, 16);
        d += t * TC_SCALAR_BITS(word, 32);
    }
    if (n & 1) {
        a += *x * TC_SCALAR_BITS(*w, 4);
        b += *x * TC_SCALAR_BITS(*w, 8);
        c += *x * TC_SCALAR_BITS(*w, 12);
        d += *x * TC_SCALAR_BITS(*w, 16);
    }
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

#undef TC_SCALAR_BITS

static TC_UNUSED void tc_fully_connected_s8_w4_scalar(const tc_fully_connected_s8_w4_scalar_t *p,
                                                      const int8_t *x, int8_t *y)
{
    const int32_t out_c = p->out.out_c, words = (p->in_c + 1) >> 1;

    for (int32_t b = 0; b < p->batch; b++, x += p->in_c, y += out_c) {
        const int32_t *w = p->w;
        for (int32_t o = 0; o < out_c; o += 4, w += words) {
            int32_t acc[4];
            tc_scalar_dense_nibbles(x, w, p->in_c, acc);
            p->store(&p->out, acc, o, y + o);
        }
    }
}

#endif
