/* SPDX-License-Identifier: 0BSD */
/* Sine, cosine and tangent, and their angles, in float32. Errors: docs/float32.md of tinyc. */
#ifndef TC_FLOAT_ANGLE_H
#define TC_FLOAT_ANGLE_H

#include "tc_float_root.h"

#define TC_HALF_PI 1.5707963705062866f
#define TC_HALF_PI_LO (-4.371138828673793e-08f)

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

static inline float tc_tan(float x)
{
    return tc_sin_or_cos(x, 0) / tc_sin_or_cos(x, 1);
}

static inline float tc_atan(float x)
{
    const float far = tc_float_of(tc_bits_of(x) & 0x7fffffff);
    const int32_t steep = far > 1.0f;
    float t = steep ? 1.0f / far : far, q = -0.06446155160665512f;

    if (!(x == x)) return x;
    const int32_t turned = t > 0.41421356797218323f; /* the tangent of pi / 8 */
    if (turned) t = (t - 1.0f) / (t + 1.0f);
    const float square = t * t;
    q = tc_fma(q, square, 0.1074264720082283f);
    q = tc_fma(q, square, -0.1426393687725067f);
    q = tc_fma(q, square, 0.19999542832374573f);
    q = tc_fma(q, square, -0.3333333134651184f);
    q = tc_fma(q * square, t, t);
    if (turned) q = TC_HALF_PI * 0.5f + (q + TC_HALF_PI_LO * 0.5f);
    if (steep) q = (TC_HALF_PI_LO - q) + TC_HALF_PI;
    return tc_bits_of(x) < 0 ? -q : q;
}

/* The angle of a sine of at most 1/2. */
static inline float tc_near_asin(float x)
{
    const float square = x * x;
    float q = 0.0384206622838974f;
    q = tc_fma(q, square, 0.026392536237835884f);
    q = tc_fma(q, square, 0.04502575471997261f);
    q = tc_fma(q, square, 0.07498738169670105f);
    q = tc_fma(q, square, 0.16666673123836517f);
    return tc_fma(q * square, x, x);
}

static inline float tc_asin(float x)
{
    const float far = x < 0.0f ? -x : x;
    if (far > 1.0f) return tc_float_of(0x7fc00000);
    if (far <= 0.5f) return tc_near_asin(x);
    const float y = TC_HALF_PI - (2.0f * tc_near_asin(tc_sqrt(0.5f * (1.0f - far))) - TC_HALF_PI_LO);
    return x < 0.0f ? -y : y;
}

static inline float tc_acos(float x)
{
    const float far = x < 0.0f ? -x : x;
    if (far > 1.0f) return tc_float_of(0x7fc00000);
    if (far <= 0.5f) return TC_HALF_PI - (tc_near_asin(x) - TC_HALF_PI_LO);
    const float above = 2.0f * tc_near_asin(tc_sqrt(0.5f * (1.0f - far)));
    return x < 0.0f ? 2.0f * TC_HALF_PI - (above - 2.0f * TC_HALF_PI_LO) : above;
}

#endif
