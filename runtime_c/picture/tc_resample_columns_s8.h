/* SPDX-License-Identifier: 0BSD */
/* Columns that are weighted means of columns of an int8 image.
 *
 *   y[r][c] = (sum_k w[c][k] * x[r][first[c] + k] + bias[c]) >> 22
 *
 * columns [out_w][3]: first, how many weights, bias; weights: those of column 0, of column 1 and so on, none
 * negative, which sum up to about 2^22, so that no sum leaves int8. x [height][in_w][channels], y
 * [height][out_w][channels], may not overlap. No scratch.
 */
#ifndef TC_RESAMPLE_COLUMNS_S8_H
#define TC_RESAMPLE_COLUMNS_S8_H

#include "tc_math.h"

typedef struct {
    const int32_t *columns, *weights;
    int32_t height, in_w, out_w, channels;
} tc_resample_columns_s8_t;

static inline void tc_resample_colors(const tc_resample_columns_s8_t *p, const int8_t *x, int8_t *y)
{
    const int32_t *w = p->weights;
    const int32_t *const end = p->columns + 3 * p->out_w;

    for (const int32_t *column = p->columns; column < end; column += 3, y += 3) {
        const int8_t *from = x + 3 * column[0];
        const int32_t *const last = w + column[1];
        int32_t red = column[2], green = column[2], blue = column[2];
        while (w < last) {
            const int32_t weight = *w++;
            red += weight * from[0];
            green += weight * from[1];
            blue += weight * from[2];
            from += 3;
        }
        y[0] = (int8_t)(red >> 22);
        y[1] = (int8_t)(green >> 22);
        y[2] = (int8_t)(blue >> 22);
    }
}

static void tc_resample_columns_s8(const tc_resample_columns_s8_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t r = 0; r < p->height; r++) {
        if (p->channels == 3) {
            tc_resample_colors(p, x, y);
        } else {
            for (int32_t channel = 0; channel < p->channels; channel++) {
                const int32_t *w = p->weights;
                for (int32_t c = 0; c < p->out_w; c++) {
                    const int32_t *column = p->columns + 3 * c;
                    const int8_t *from = x + p->channels * column[0] + channel;
                    int32_t sum = column[2];
                    for (int32_t k = 0; k < column[1]; k++, from += p->channels) {
                        sum += *w++ * *from;
                    }
                    y[p->channels * c + channel] = (int8_t)(sum >> 22);
                }
            }
        }
        x += p->in_w * p->channels;
        y += p->out_w * p->channels;
    }
}

#endif
