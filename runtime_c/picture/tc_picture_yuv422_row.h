/* SPDX-License-Identifier: 0BSD */
/* Pixels in pairs that share their color: YUYV, YVYU, UYVY, VYUY.
 *
 *   light = (Y - black) * factor + 2^15
 *   red   = clamp((light + r_v (V - 128)) / 2^16) - 128
 *   green = clamp((light - g_u (U - 128) - g_v (V - 128)) / 2^16) - 128
 *   blue  = clamp((light + b_u (U - 128)) / 2^16) - 128, clamped to [0, 255]; grey is light alone
 *
 * x [..][line] bytes, pairs of 4: the Ys at luma and luma + 2, U at u, V at v. rows [out_h]; columns [out_w],
 * or null: first, first + 1 ... y [out_h][out_w][channels], channels 1 or 3, may not overlap x. The function
 * of a row gets the line rows[r]. No scratch.
 */
#ifndef TC_PICTURE_YUV422_ROW_H
#define TC_PICTURE_YUV422_ROW_H

#include "tc_picture.h"

typedef struct {
    const int16_t *rows, *columns;
    int32_t first, line, out_h, out_w, channels;
    int32_t luma, u, v, black, factor, r_v, g_u, g_v, b_u;
} tc_picture_yuv422_t;

static inline int8_t tc_picture_clamped(int32_t sum)
{
    return (int8_t)tc_clamp(sum >> 16, -128, 127);
}

static inline void tc_picture_yuv422_row(const tc_picture_yuv422_t *p, const uint8_t *x, int8_t *y)
{
    const int32_t offset = 32768 - 128 * 65536 - p->black * p->factor, factor = p->factor;
    int32_t r = 0, g = 0, b = 0, known = -1; /* of the colors of pair `known` */

    for (int32_t c = 0; c < p->out_w; c++) {
        const int32_t column = p->columns ? p->columns[c] : p->first + c;
        const uint8_t *pair = x + 4 * (column >> 1);
        const int32_t light = pair[p->luma + 2 * (column & 1)] * factor + offset;
        if (p->channels == 1) {
            *y++ = tc_picture_clamped(light);
            continue;
        }
        if (column >> 1 != known) {
            const int32_t u = pair[p->u] - 128, v = pair[p->v] - 128;
            r = p->r_v * v;
            g = p->g_u * u + p->g_v * v;
            b = p->b_u * u;
            known = column >> 1;
        }
        y[0] = tc_picture_clamped(light + r);
        y[1] = tc_picture_clamped(light - g);
        y[2] = tc_picture_clamped(light + b);
        y += 3;
    }
}

#endif
