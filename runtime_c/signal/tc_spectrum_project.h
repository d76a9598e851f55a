/* SPDX-License-Identifier: 0BSD */
/* Sums of factors times x, scaled to int8: y = clamp((sum + offset * 2^(bits - 16)) / 2^bits, least, most),
 * to the nearest, halves up, or with `cuts` towards zero.
 *
 * x: n numbers for all results, or (step 1, n 1) one for each. The absolute factors of a result add up to
 * less than 2^31. y may not overlap x. No scratch.
 */
#ifndef TC_SPECTRUM_PROJECT_H
#define TC_SPECTRUM_PROJECT_H

#include "tc_math.h"

typedef struct {
    const int32_t *factor; /* [results][n] */
    const int32_t *offset; /* [results] */
    int32_t results, n, step, bits, least, most, cuts;
} tc_spectrum_project_t;

static void tc_spectrum_project(const tc_spectrum_project_t *p, const int32_t *x, int8_t *y)
{
    const int32_t *factor = p->factor;
    const int64_t one = (int64_t)1 << p->bits;

    for (int32_t j = 0; j < p->results; j++, x += p->step) {
        int64_t sum = p->offset[j] * (one >> 16), q;
        for (int32_t i = 0; i < p->n; i++) {
            sum += (int64_t)x[i] * *factor++;
        }
        if (p->cuts) {
            q = sum < 0 ? -(-sum >> p->bits) : sum >> p->bits;
        } else {
            q = (sum + (one >> 1)) >> p->bits;
        }
        y[j] = (int8_t)(q < p->least ? p->least : q > p->most ? p->most : q);
    }
}

#endif
