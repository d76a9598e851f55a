/* SPDX-License-Identifier: 0BSD */
/* One row of a 2-D convolution of few channels with RISC-V's vectors: lanes are pixels, weights are numbers.
 *
 * As tc_conv2d_s8_rvv.h, with the same bytes. Of TC_RVV_BLOCK output pixels, or as many as fit vectors, what
 * they read is laid in planes first: [k_h][phases][in_c][columns], columns a stride apart beside each other,
 * those outside x_zero. A tap is a vector at offsets[tap] of them, multiplied with its weights of three
 * channels.
 * w [ceil(out_c / 3)][taps][3], zeros beyond the last channel; taps: rounded up to a multiple of 4 with
 * weights of zero.
 * out.constants: two words more than the channels have. scratch: k_h * phases * in_c * columns bytes. A
 * block's pixels are read before it is written.
 */
#ifndef TC_CONV2D_S8_RVV_PLANES_H
#define TC_CONV2D_S8_RVV_PLANES_H

#include "tc_rvv.h"

enum { TC_RVV_BLOCK = 32 };

/* phases: of the columns of a stride; extra: columns of a plane beyond those of the block's pixels. The
 * functions in assembly know where the first fields are. */
typedef struct {
    tc_rvv_out_t out;
    const int16_t *offsets;
    tc_rvv_window_t window;
    int32_t phases, columns, extra;
} tc_conv2d_s8_rvv_planes_t;

/* How many of n pixels are made at a time. */
#if TC_RVV_ASM

static TC_NAKED int32_t tc_rvv_lanes(int32_t n TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE("vsetvli a0, a0, e32, m8, ta, ma\n" "ret\n"));
}

#else

static TC_UNUSED int32_t tc_rvv_lanes(int32_t n)
{
    return n;
}

#endif

/* n > 0 pixels, `stride` bytes apart, of `channels` bytes each -> planes [channels][columns]. */
#if TC_RVV_ASM

static TC_NAKED void tc_rvv_transpose(const int8_t *from TC_UNUSED, int32_t stride TC_UNUSED,
                                      int8_t *to TC_UNUSED, int32_t n TC_UNUSED, int32_t channels TC_UNUSED,
                                      int32_t columns TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "1:\n"
        "vsetvli t0, a3, e8, m8, ta, ma\n"
        "mv     t1, a0\n"
        "mv     t2, a2\n"
        "mv     t3, a4\n"
        "2:\n"
        "vlse8.v v8, (t1), a1\n"
        "vse8.v v8, (t2)\n"
        "addi   t1, t1, 1\n"
        "addi   t3, t3, -1\n"
        "add    t2, t2, a5\n"
        "bnez   t3, 2b\n"
        "sub    a3, a3, t0\n"
        "add    a2, a2, t0\n"
        "mul    t0, t0, a1\n"
        "add    a0, a0, t0\n"
        "bnez   a3, 1b\n"
        "ret\n"));
}

#else

static TC_UNUSED void tc_rvv_transpose(const int8_t *from, int32_t stride, int8_t *to, int32_t n,
                                       int32_t channels, int32_t columns)
{
    for (int32_t i = 0; i < channels; i++) {
        for (int32_t k = 0; k < n; k++) {
            to[i * columns + k] = from[k * stride + i];
        }
    }
}

#endif

/* n pixels, which fit vectors -> y [n][out_c]. */
#if TC_RVV_ASM

#define TC_RVV_EACH(name, first, second, third)                                                            \
    name " v8, v8, " first "\n" name " v16, v16, " second "\n" name " v24, v24, " third "\n"
#define TC_RVV_NUMBERS(at)                                                                                 \
    "lw     t0, 0(" at ")\n"                                                                               \
    "lw     t1, 4(" at ")\n"                                                                               \
    "lw     t2, 8(" at ")\n"
#define TC_RVV_PLANE(at, w0, w1, w2)                                                                       \
    "lh     s0, " at "(t3)\n"                                                                              \
    "lb     t0, " w0 "(a6)\n"                                                                              \
    "add    s0, s0, a1\n"                                                                                  \
    "lb     t1, " w1 "(a6)\n"                                                                              \
    "vle8.v v4, (s0)\n"                                                                                    \
    "lb     t2, " w2 "(a6)\n"                                                                              \
    "vsext.vf2 v0, v4\n"                                                                                   \
    "vwmacc.vx v8, t0, v0\n"                                                                               \
    "vwmacc.vx v16, t1, v0\n"                                                                              \
    "vwmacc.vx v24, t2, v0\n"

/* a4 bytes from a pixel to the next, a5 bytes from a vector of constants to the next; a6 weights, a7
 * constants, t6 channels that are left. */
static TC_NAKED void tc_rvv_plane_pixels(const tc_conv2d_s8_rvv_planes_t *layer TC_UNUSED,
                                         const int8_t *planes TC_UNUSED, int8_t *y TC_UNUSED,
                                         int32_t n TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "addi   sp, sp, -16\n"
        "sw     s0, 0(sp)\n"
        "lw     a4, 8(a0)\n"
        "slli   a5, a4, 2\n"
        "lw     a6, 0(a0)\n"
        "lw     a7, 4(a0)\n"
        "mv     t6, a4\n"
        "csrwi  vxrm, 0\n" /* to nearest, halves up */
        "1:\n"
        "vsetvli zero, a3, e32, m8, ta, ma\n"
        "vmv.v.i v8, 0\n"
        "vmv.v.i v16, 0\n"
        "vmv.v.i v24, 0\n"
        "lw     t3, 44(a0)\n"
        "lw     t5, 12(a0)\n"
        "slli   t5, t5, 1\n"
        "add    t5, t5, t3\n"
        "vsetvli zero, zero, e16, m4, ta, ma\n"
        "2:\n"
        TC_RVV_PLANE("0", "0", "1", "2")
        TC_RVV_PLANE("2", "3", "4", "5")
        TC_RVV_PLANE("4", "6", "7", "8")
        TC_RVV_PLANE("6", "9", "10", "11")
        "addi   t3, t3, 8\n"
        "addi   a6, a6, 12\n"
        "bne    t3, t5, 2b\n"
        "vsetvli zero, zero, e32, m8, ta, ma\n"
        "lw     t0, " TC_RVV_POWER "\n"
        TC_RVV_EACH("vmul.vx", "t0", "t0", "t0")
        TC_RVV_NUMBERS("a7")
        TC_RVV_EACH("vadd.vx", "t0", "t1", "t2")
        "add    t3, a7, a5\n"
        TC_RVV_NUMBERS("t3")
        "lw     t4, " TC_RVV_WAY "\n"
        "lw     t5, " TC_RVV_SHIFT "\n"
        "bnez   t4, 5f\n"
        TC_RVV_EACH("vmulh.vx", "t0", "t1", "t2")
        "4:\n"
        "vsetvli zero, zero, e16, m4, ta, ma\n"
        TC_RVV_EACH("vnclip.wx", "t5", "t5", "t5")
        "lw     t0, " TC_RVV_Y_ZERO "\n"
        "lw     t1, " TC_RVV_CLAMPS "\n"
        "beqz   t0, 6f\n"
        TC_RVV_EACH("vsadd.vx", "t0", "t0", "t0")
        "6:\n"
        "vsetvli zero, zero, e8, m2, ta, ma\n"
        TC_RVV_EACH("vnclip.wi", "0", "0", "0")
        "beqz   t1, 7f\n"
        "lw     t0, " TC_RVV_Y_MIN "\n"
        "lw     t1, " TC_RVV_Y_MAX "\n"
        TC_RVV_EACH("vmax.vx", "t0", "t0", "t0")
        TC_RVV_EACH("vmin.vx", "t1", "t1", "t1")
        "j      7f\n"
        "5:\n"
        "add    t3, t3, a5\n"
        "addi   t4, t4, -1\n"
        "bnez   t4, 6f\n"
        TC_RVV_EACH("vsmul.vx", "t0", "t1", "t2") /* DEFINED */
        "li     t0, 31\n"
        TC_RVV_LESS_THREE("v0")
        TC_RVV_NUMBERS("t3")
        TC_RVV_EACH("vssra.vx", "t0", "t1", "t2")
        "j      4b\n"
        "6:\n"
        TC_RVV_EACH("vmulh.vx", "t0", "t1", "t2") /* ADDED */
        TC_RVV_NUMBERS("t3")
        "add    t3, t3, a5\n"
        TC_RVV_EACH("vadd.vx", "t0", "t1", "t2")
        TC_RVV_NUMBERS("t3")
        TC_RVV_EACH("vssra.vx", "t0", "t1", "t2")
        "j      4b\n"
        "7:\n"
        "vsse8.v v8, (a2), a4\n"
        "addi   t6, t6, -1\n"
        "beqz   t6, 8f\n"
        "addi   t0, a2, 1\n"
        "vsse8.v v16, (t0), a4\n"
        "addi   t6, t6, -1\n"
        "beqz   t6, 8f\n"
        "addi   t0, a2, 2\n"
        "vsse8.v v24, (t0), a4\n"
        "addi   t6, t6, -1\n"
        "addi   a2, a2, 3\n"
        "addi   a7, a7, 12\n"
        "bnez   t6, 1b\n"
        "8:\n"
        "lw     s0, 0(sp)\n"
        "addi   sp, sp, 16\n"
        "ret\n"));
}

#else

static TC_UNUSED void tc_rvv_plane_pixels(const tc_conv2d_s8_rvv_planes_t *layer, const int8_t *planes,
                                          int8_t *y, int32_t n)
{
    const tc_rvv_out_t *const p = &layer->out;
    for (int32_t o = 0; o < p->out_c; o++) {
        const int8_t *const w = p->w + o / 3 * 3 * p->taps + o % 3;
        for (int32_t i = 0; i < n; i++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < p->taps; k++) {
                sum += planes[layer->offsets[k] + i] * w[3 * k];
            }
            y[i * p->out_c + o] = tc_rvv_output(p, sum, o);
        }
    }
}

#endif

/* What n output pixels from ox on read of row ky -> planes [phases][in_c][columns]. */
static TC_UNUSED void tc_rvv_lay(const tc_conv2d_s8_rvv_planes_t *p, const int8_t *row, int32_t ox, int32_t n,
                                 int8_t *to)
{
    const tc_rvv_window_t *const window = &p->window;
    const int32_t in_c = window->in_c, stride = window->stride_w, count = n + p->extra;

    for (int32_t phase = 0; phase < p->phases; phase++, to += in_c * p->columns) {
        const int32_t column = ox * stride - window->pad_left + phase;
        int32_t first = 0, last = count;
        if (column < 0) first = (stride - 1 - column) / stride;
        if (column + (count - 1) * stride >= window->in_w) {
            last = window->in_w > column ? (window->in_w - column + stride - 1) / stride : 0;
        }
        if (first > 0 || last < count) tc_rvv_transpose(window->pad, 0, to, count, in_c, p->columns);
        if (first < last) {
            tc_rvv_transpose(row + (column + first * stride) * in_c, stride * in_c, to + first, last - first,
                             in_c, p->columns);
        }
    }
}

static TC_UNUSED void tc_conv2d_s8_rvv_planes(const tc_conv2d_s8_rvv_planes_t *p, const int8_t *const *x,
                                              int8_t *y, void *scratch)
{
    const int32_t out_w = p->window.out_w, row = p->phases * p->window.in_c * p->columns;
    int32_t n;

    for (int32_t ox = 0; ox < out_w; ox += n, y += n * p->out.out_c) {
        n = tc_rvv_lanes(out_w - ox < TC_RVV_BLOCK ? out_w - ox : TC_RVV_BLOCK);
        for (int32_t ky = 0; ky < p->window.k_h; ky++) {
            tc_rvv_lay(p, x[ky], ox, n, (int8_t *)scratch + ky * row);
        }
        tc_rvv_plane_pixels(p, (const int8_t *)scratch, y, n);
    }
}

#endif
