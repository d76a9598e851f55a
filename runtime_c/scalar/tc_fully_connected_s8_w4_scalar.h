/* SPDX-License-Identifier: 0BSD */
/* Fully connected with int4 weights on a core without DSP instructions (tc_scalar.h), four outputs at a time.
 *
 *   acc[b][o] = bias[o] + sum over i of x[b][i] * w[o][i]
 *   y[b][o]   = clamp(requantize(acc, mult[o], shift[o]) + y_zero, y_min, y_max)
 *
 * bias already contains -x_zero * sum(w[o]), so the loop subtracts nothing.
 * x [batch][in_c]. y [batch][out_c], may not overlap x. w [out_c / 4][words]: a word has the weights of two
 * inputs s, t, from the lowest bits s0 s1 s2 s3 t0 t1 t2 t3, zeros beyond the last output and input. No
 * scratch. acc cannot overflow.
 */
#ifndef TC_FULLY_CONNECTED_S8_W4_SCALAR_H
#define TC_FULLY_CONNECTED_S8_W4_SCALAR_H

#include "tc_scalar.h"

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
