/* SPDX-License-Identifier: 0BSD */
/* Sine and cosine in float32. Error: docs/float32.md of tinyc. */
#ifndef TC_FLOAT_TURN_H
#define TC_FLOAT_TURN_H

#include "tc_float.h"

/* sin(x + quarters * pi / 2); from 2^22 on, where neighbours are half a radian apart, that of 0. */
static inline float tc_sin_or_cos(float x, int32_t quarters)
{
    if (!(x == x)) return x;
    if (!(x < 4194304.0f && x > -4194304.0f)) x = 0.0f;
    const float n = tc_fma(x, 0.6366197723675814f, 12582912.0f) - 12582912.0f;
    float r = tc_fma(n, -1.5707963705062866f, x);
    r = tc_fma(n, 4.371138828673793e-08f, r);
    r = tc_fma(n, 1.7151245100059e-15f, r);
    const int32_t turn = ((int32_t)n + quarters) & 3;
    const float square = r * r;
    float q, y;
    if (turn & 1) {
        q = -2.8746222824338474e-07f;
        q = tc_fma(q, square, 2.4820861654006876e-05f);
        q = tc_fma(q, square, -0.0013888977700844407f);
        q = tc_fma(q, square, 0.0416666679084301f);
        y = tc_fma(q, square * square, tc_fma(square, -0.5f, 1.0f));
    } else {
        q = 2.824350303853862e-06f;
        q = tc_fma(q, square, -0.00019852464902214706f);
        q = tc_fma(q, square, 0.008333378471434116f);
        q = tc_fma(q, square, -0.1666666716337204f);
        y = tc_fma(q * square, r, r);
    }
    return turn & 2 ? -y : y;
}

#endif
