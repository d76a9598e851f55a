/* SPDX-License-Identifier: 0BSD */
/* A tensor with constant elements added before and after its axes, any element type.
 *
 * Four nested loops, outermost first: loop k adds before<k> and after<k> elements of itself to n<k>
 * existing ones. Sizes of loop 3 are in bytes, multiples of fill_bytes. y may not overlap x. No scratch.
 */
#ifndef TC_PAD_H
#define TC_PAD_H

#include "tc_copy.h"

typedef struct {
    const void *fill; /* one element */
    int32_t fill_bytes;
    int32_t before0, n0, after0;
    int32_t before1, n1, after1;
    int32_t before2, n2, after2;
    int32_t before3, n3, after3;
} tc_pad_t;

static inline uint8_t *tc_pad_fill(const tc_pad_t *p, uint8_t *y, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i += p->fill_bytes) {
        for (int32_t b = 0; b < p->fill_bytes; b++) {
            *y++ = ((const uint8_t *)p->fill)[b];
        }
    }
    return y;
}

/* copy: what copies a run. */
TC_INLINE void tc_pad_by(const tc_pad_t *p, const void *x, void *y, tc_copy_t *copy)
{
    const int32_t size2 = p->before3 + p->n3 + p->after3; /* bytes of one element of loop 2, 1 and 0 */
    const int32_t size1 = (p->before2 + p->n2 + p->after2) * size2;
    const int32_t size0 = (p->before1 + p->n1 + p->after1) * size1;
    const uint8_t *in = (const uint8_t *)x;
    uint8_t *out = tc_pad_fill(p, (uint8_t *)y, p->before0 * size0);

    for (int32_t i0 = 0; i0 < p->n0; i0++) {
        out = tc_pad_fill(p, out, p->before1 * size1);
        for (int32_t i1 = 0; i1 < p->n1; i1++) {
            out = tc_pad_fill(p, out, p->before2 * size2);
            for (int32_t i2 = 0; i2 < p->n2; i2++) {
                out = tc_pad_fill(p, out, p->before3);
                copy(out, in, p->n3);
                out += p->n3;
                in += p->n3;
                out = tc_pad_fill(p, out, p->after3);
            }
            out = tc_pad_fill(p, out, p->after2 * size2);
        }
        out = tc_pad_fill(p, out, p->after1 * size1);
    }
    tc_pad_fill(p, out, p->after0 * size0);
}

static TC_UNUSED void tc_pad(const tc_pad_t *p, const void *x, void *y)
{
    tc_pad_by(p, x, y, tc_copy);
}

#endif
