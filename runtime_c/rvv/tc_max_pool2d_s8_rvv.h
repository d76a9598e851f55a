/* SPDX-License-Identifier: 0BSD */
/* One row of 2-D max pooling with RISC-V's vectors (tc_rvv_pool.h): y[ox][c] = clamp(largest tap inside the
 * image, y_min, y_max).
 *
 * x: k_h pointers to input rows s8 [in_w][in_c]; a row outside the image is a null pointer. At least one tap
 * is inside.
 * y [out_w][in_c], may not overlap x.
 */
#ifndef TC_MAX_POOL2D_S8_RVV_H
#define TC_MAX_POOL2D_S8_RVV_H

#include "tc_rvv_pool.h"

#if TC_RVV_ASM

static TC_NAKED void tc_rvv_largest(const tc_rvv_area_t *area TC_UNUSED, int8_t *y TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(TC_RVV_AREA(
        "e8, m8",
        "lw     t5, 24(a0)\n"
        "vmv.v.x v8, t5\n",
        "vle8.v v16, (t3)\n"
        "vmax.vv v8, v8, v16\n",
        "lw     t5, 28(a0)\n"
        "vmin.vx v8, v8, t5\n")));
}

#else

static TC_UNUSED void tc_rvv_largest(const tc_rvv_area_t *area, int8_t *y)
{
    for (int32_t c = 0; c < area->channels; c++) {
        int32_t found = area->y_min;
        for (int32_t row = 0; row < area->row_count; row++) {
            for (int32_t i = 0; i < area->columns; i++) {
                const int8_t tap = area->rows[row][area->offset + i * area->step + c];
                if (tap > found) found = tap;
            }
        }
        y[c] = (int8_t)(found > area->y_max ? area->y_max : found);
    }
}

#endif

static TC_UNUSED void tc_max_pool2d_s8_rvv(const tc_rvv_pool_t *p, const int8_t *const *x, int8_t *y)
{
    tc_rvv_pool(p, x, y, tc_rvv_largest);
}

#endif
