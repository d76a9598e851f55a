/* SPDX-License-Identifier: 0BSD */
/* Bilinear interpolation, float32. Output pixel (r, c) lies between rows k and m = rows[r] and columns l and
 * n = columns[c]:
 *
 *   top = fma(x[k][n] - x[k][l], g, x[k][l]), bottom = fma(x[m][n] - x[m][l], g, x[m][l]);
 *       y[r][c] = fma(bottom - top, f, top)
 *
 * with f = row_weights[r], g = column_weights[c]. rows, columns: [first, second]. x [..][in_w][channels], y
 * [out_h][out_w][channels], may not overlap x. No scratch.
 */
#ifndef TC_RESIZE_BILINEAR_F32_H
#define TC_RESIZE_BILINEAR_F32_H

#include "tc_float.h"

typedef struct {
    const int16_t *rows, *columns;
    const float *row_weights, *column_weights;
    int32_t in_w, channels, out_h, out_w;
} tc_resize_bilinear_f32_t;

static void tc_resize_bilinear_f32(const tc_resize_bilinear_f32_t *p, const float *x, float *y)
{
    for (int32_t r = 0; r < p->out_h; r++) {
        const int16_t *row = p->rows + 2 * r;
        const float f = p->row_weights[r];
        for (int32_t c = 0; c < p->out_w; c++) {
            const int16_t *column = p->columns + 2 * c;
            const float g = p->column_weights[c];
            const float *k = x + row[0] * p->in_w * p->channels, *m = x + row[1] * p->in_w * p->channels;
            const int32_t l = column[0] * p->channels, n = column[1] * p->channels;
            for (int32_t i = 0; i < p->channels; i++) {
                const float top = tc_fma(k[n + i] - k[l + i], g, k[l + i]);
                const float bottom = tc_fma(m[n + i] - m[l + i], g, m[l + i]);
                *y++ = tc_fma(bottom - top, f, top);
            }
        }
    }
}

#endif
