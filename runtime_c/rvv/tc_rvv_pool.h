/* SPDX-License-Identifier: 0BSD */
/* Pooling with RISC-V's vectors: lanes are channels, and a window is columns of rows. */
#ifndef TC_RVV_POOL_H
#define TC_RVV_POOL_H

#include "tc_rvv.h"

typedef struct {
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
    int32_t y_min, y_max;
    int32_t count_pad, x_zero; /* of averages */
} tc_rvv_pool_t;

/* What of a window is inside the image, and how it is averaged. The functions in assembly know where the
 * fields are. */
typedef struct {
    const int8_t *const *rows; /* none is null */
    /* offset: of the first column; step: to the next one */
    int32_t row_count, columns, offset, step, channels;
    int32_t y_min, y_max, start, divisor;               /* start: what sums begin with */
} tc_rvv_area_t;

/* From the area's first channels on, as many as fit vectors of `lanes`: `begin`, `column` for each column at
 * t3, then `end`. */
#define TC_RVV_AREA(lanes, begin, column, end)                                                             \
    "lw     a2, 0(a0)\n"                                                                                   \
    "lw     a3, 4(a0)\n"                                                                                   \
    "lw     a4, 8(a0)\n"                                                                                   \
    "lw     a5, 12(a0)\n"                                                                                  \
    "lw     a6, 16(a0)\n"                                                                                  \
    "lw     t6, 20(a0)\n"                                                                                  \
    "1:\n"                                                                                                 \
    "vsetvli t0, t6, " lanes ", ta, ma\n"                                                                  \
    begin                                                                                                  \
    "mv     t1, a2\n"                                                                                      \
    "mv     t2, a3\n"                                                                                      \
    "2:\n"                                                                                                 \
    "lw     t3, 0(t1)\n"                                                                                   \
    "mv     t4, a4\n"                                                                                      \
    "add    t3, t3, a5\n"                                                                                  \
    "3:\n"                                                                                                 \
    column                                                                                                 \
    "addi   t4, t4, -1\n"                                                                                  \
    "add    t3, t3, a6\n"                                                                                  \
    "bnez   t4, 3b\n"                                                                                      \
    "addi   t2, t2, -1\n"                                                                                  \
    "addi   t1, t1, 4\n"                                                                                   \
    "bnez   t2, 2b\n"                                                                                      \
    end                                                                                                    \
    "vse8.v v8, (a1)\n"                                                                                    \
    "add    a1, a1, t0\n"                                                                                  \
    "add    a5, a5, t0\n"                                                                                  \
    "sub    t6, t6, t0\n"                                                                                  \
    "bnez   t6, 1b\n"                                                                                      \
    "ret\n"

typedef void tc_rvv_area_function(const tc_rvv_area_t *area, int8_t *y);

/* One output row: x: k_h row pointers, null outside the image. */
TC_INLINE void tc_rvv_pool(const tc_rvv_pool_t *p, const int8_t *const *x, int8_t *y,
                           tc_rvv_area_function *make)
{
    const int32_t channels = p->in_c, step = p->dilation_w;
    tc_rvv_area_t area = {x, p->k_h, 0, 0, step * channels, channels, p->y_min, p->y_max, 0, 1};

    while (!area.rows[0]) { /* above the image; others may be below it */
        area.rows++;
        area.row_count--;
    }
    while (!area.rows[area.row_count - 1]) {
        area.row_count--;
    }
    for (int32_t ox = 0; ox < p->out_w; ox++, y += channels) {
        int32_t first = ox * p->stride_w - p->pad_left, columns = p->k_w;
        for (; first < 0; first += step) {
            columns--;
        }
        while (first + (columns - 1) * step >= p->in_w) {
            columns--;
        }
        area.columns = columns;
        area.offset = first * channels;
        area.divisor = p->count_pad ? p->k_h * p->k_w : area.row_count * columns;
        area.start = (area.divisor - area.row_count * columns) * p->x_zero;
        make(&area, y);
    }
}

#endif
