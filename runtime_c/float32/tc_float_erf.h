/* SPDX-License-Identifier: 0BSD */
/* The error function in float32. Error: docs/float32.md of tinyc. */
#ifndef TC_FLOAT_ERF_H
#define TC_FLOAT_ERF_H

#include "tc_float_exp.h"

static inline float tc_erf(float x)
{
    const float far = x < 0.0f ? -x : x, square = x * x;
    float q, y = 1.0f;

    if (!(x == x)) return x;
    if (far < 1.0f) {
        q = -4.402264312375337e-05f;
        q = tc_fma(q, square, -0.00043389006168581545f);
        q = tc_fma(q, square, 0.0047760577872395515f);
        q = tc_fma(q, square, -0.02664051577448845f);
        q = tc_fma(q, square, 0.11278599500656128f);
        q = tc_fma(q, square, -0.37612199783325195f);
        return tc_fma(x, 1.1283791065216064f, x * square * q);
    }
    if (far < 4.0f) { /* 1 - e^(log of the complementary function) */
        q = -1.7041965350017563e-07f;
        q = tc_fma(q, far, -1.925440301420167e-05f);
        q = tc_fma(q, far, 0.000426461425377056f);
        q = tc_fma(q, far, -0.004153648857027292f);
        q = tc_fma(q, far, 0.025101544335484505f);
        q = tc_fma(q, far, -0.10827826708555222f);
        q = tc_fma(q, far, -0.6333329677581787f);
        q = tc_fma(q, far, -1.1295273303985596f);
        y = 1.0f - tc_exp(tc_fma(q, far, 0.00017812312580645084f));
    }
    return x < 0.0f ? -y : y;
}

#endif
