/* SPDX-License-Identifier: 0BSD */
/* What the functions share that take pixels out of a camera's lines: colors to int8, pixel + 128 = color. */
#ifndef TC_PICTURE_H
#define TC_PICTURE_H

#include "tc_math.h"

#if TC_GNU && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TC_PICTURE_WORDS 1 /* a word holds its bytes from the lowest bits up */
#else
#define TC_PICTURE_WORDS 0
#endif

/* r, g, b in [0, 255] to one pixel of `channels` elements; grey is (19595 r + 38470 g + 7471 b + 2^15) /
 * 2^16. */
static inline int8_t *tc_picture_put(int8_t *y, int32_t channels, int32_t r, int32_t g, int32_t b)
{
    if (channels == 1) {
        y[0] = (int8_t)(((19595 * r + 38470 * g + 7471 * b + 32768) >> 16) - 128);
        return y + 1;
    }
    y[0] = (int8_t)(r - 128);
    y[1] = (int8_t)(g - 128);
    y[2] = (int8_t)(b - 128);
    return y + 3;
}

#endif
