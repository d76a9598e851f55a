/* SPDX-License-Identifier: 0BSD */
/* Sum or difference of two int8 tensors of one shape with RISC-V's vectors.
 *
 *   y[i] = clamp(((a * x0[i] + b * x1[i] + c) >> shift) + y_zero, y_min, y_max), for i in [0, n)
 *
 * The sums fit int32. y may be x0 or x1.
 */
#ifndef TC_ADD_LINEAR_S8_RVV_H
#define TC_ADD_LINEAR_S8_RVV_H

#include "tc_rvv.h"

/* The function in assembly knows where the fields are. */
typedef struct {
    int32_t n, a, b, c, shift, y_zero, y_min, y_max;
} tc_add_linear_s8_rvv_t;

#if TC_RVV_ASM

static TC_NAKED void tc_add_linear_s8_rvv(const tc_add_linear_s8_rvv_t *p TC_UNUSED,
                                          const int8_t *x0 TC_UNUSED, const int8_t *x1 TC_UNUSED,
                                          int8_t *y TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "lw     t1, 0(a0)\n"
        "lw     t2, 4(a0)\n"
        "lw     t3, 8(a0)\n"
        "lw     t4, 12(a0)\n"
        "lw     t5, 16(a0)\n"
        "lw     t6, 20(a0)\n"
        "lw     a4, 24(a0)\n"
        "lw     a5, 28(a0)\n"
        "csrwi  vxrm, 2\n" /* down */
        "1:\n"
        "vsetvli t0, t1, e32, m8, ta, ma\n"
        "vle8.v v4, (a1)\n"
        "vle8.v v6, (a2)\n"
        "vsext.vf4 v8, v4\n"
        "vsext.vf4 v16, v6\n"
        "vmv.v.x v24, t4\n"
        "vmacc.vx v24, t2, v8\n"
        "vmacc.vx v24, t3, v16\n"
        "vsetvli zero, zero, e16, m4, ta, ma\n"
        "vnclip.wx v24, v24, t5\n"
        "vsadd.vx v24, v24, t6\n"
        "vsetvli zero, zero, e8, m2, ta, ma\n"
        "vnclip.wi v24, v24, 0\n"
        "vmax.vx v24, v24, a4\n"
        "vmin.vx v24, v24, a5\n"
        "vse8.v v24, (a3)\n"
        "add    a1, a1, t0\n"
        "add    a2, a2, t0\n"
        "add    a3, a3, t0\n"
        "sub    t1, t1, t0\n"
        "bnez   t1, 1b\n"
        "ret\n"));
}

#else

static TC_UNUSED void tc_add_linear_s8_rvv(const tc_add_linear_s8_rvv_t *p, const int8_t *x0,
                                           const int8_t *x1, int8_t *y)
{
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t sum = p->c + p->a * x0[i] + p->b * x1[i];
        y[i] = (int8_t)tc_clamp((sum >> p->shift) + p->y_zero, p->y_min, p->y_max);
    }
}

#endif

#endif
