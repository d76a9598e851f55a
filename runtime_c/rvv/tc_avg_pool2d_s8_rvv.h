/* SPDX-License-Identifier: 0BSD */
/* One row of 2-D average pooling with RISC-V's vectors (tc_rvv_pool.h). Input and output share scale and zero
 * point.
 *
 *   y[ox][c] = clamp(round(sum / n), y_min, y_max), halves away from zero
 *
 * as in tc_avg_pool2d_s8.h. k_h * k_w is at most 255, so that sums, and half of n beside, fit 16 bits.
 */
#ifndef TC_AVG_POOL2D_S8_RVV_H
#define TC_AVG_POOL2D_S8_RVV_H

#include "tc_rvv_pool.h"

#if TC_RVV_ASM

static TC_NAKED void tc_rvv_average(const tc_rvv_area_t *area TC_UNUSED, int8_t *y TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(TC_RVV_AREA(
        "e16, m8",
        "lw     t5, 32(a0)\n"
        "vmv.v.x v8, t5\n"
        "vsetvli zero, zero, e8, m4, ta, ma\n",
        "vle8.v v16, (t3)\n"
        "vwadd.wv v8, v8, v16\n",
        "vsetvli zero, zero, e16, m8, ta, ma\n"
        "lw     t5, 36(a0)\n"
        "srli   t1, t5, 1\n"
        "vsra.vi v16, v8, 15\n" /* signs */
        "vxor.vv v8, v8, v16\n"
        "vsub.vv v8, v8, v16\n"
        "vadd.vx v8, v8, t1\n"
        "vdivu.vx v8, v8, t5\n"
        "vxor.vv v8, v8, v16\n"
        "vsub.vv v8, v8, v16\n"
        "lw     t5, 24(a0)\n"
        "lw     t1, 28(a0)\n"
        "vmax.vx v8, v8, t5\n"
        "vmin.vx v8, v8, t1\n"
        "vsetvli zero, zero, e8, m4, ta, ma\n"
        "vnsra.wi v8, v8, 0\n")));
}

#else

static TC_UNUSED void tc_rvv_average(const tc_rvv_area_t *area, int8_t *y)
{
    const int32_t n = area->divisor;
    for (int32_t c = 0; c < area->channels; c++) {
        int32_t sum = area->start;
        for (int32_t row = 0; row < area->row_count; row++) {
            for (int32_t i = 0; i < area->columns; i++) {
                sum += area->rows[row][area->offset + i * area->step + c];
            }
        }
        y[c] = (int8_t)tc_clamp((sum > 0 ? sum + n / 2 : sum - n / 2) / n, area->y_min, area->y_max);
    }
}

#endif

static TC_UNUSED void tc_avg_pool2d_s8_rvv(const tc_rvv_pool_t *p, const int8_t *const *x, int8_t *y)
{
    tc_rvv_pool(p, x, y, tc_rvv_average);
}

#endif
