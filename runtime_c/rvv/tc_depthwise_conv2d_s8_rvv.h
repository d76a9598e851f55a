/* SPDX-License-Identifier: 0BSD */
/* One row of a depthwise convolution with RISC-V's vectors (tc_rvv.h): lanes are channels.
 *
 *   acc[ox][c] = bias[c] + sum over ky, kx of x[ky][ox*stride_w - pad_left + kx*dilation_w][c] * w[ky][kx][c]
 *   y[ox][c]   = clamp(requantize(acc, mult[c], shift[c]) + y_zero, y_min, y_max)
 *
 * x: k_h pointers to input rows s8 [in_w][channels]; a row outside the image points to zero points. y
 * [out_w][channels].
 * w [k_h * k_w][channels], at most TC_RVV_MOST_TAPS of a channel. segment: taps whose sum of products fits 16
 * bits, whatever x is: each run of so many from the first tap on. `held` (nine taps, segment 3 or 2): weights
 * stay in registers. together: with few channels and stride 1 so many pixels are made as one of so many times
 * the channels, out.out_c in all; weights and constants are repeated for each.
 */
#ifndef TC_DEPTHWISE_CONV2D_S8_RVV_H
#define TC_DEPTHWISE_CONV2D_S8_RVV_H

#include "tc_rvv.h"

enum { TC_RVV_MOST_TAPS = 32 };

typedef struct {
    tc_rvv_out_t out;
    tc_rvv_window_t window;
    int32_t segment, held, together;
} tc_depthwise_conv2d_s8_rvv_t;

/* `pixels` pixels -> y [pixels][out_c], the first `channels` of each. from: the place of each tap for the
 * first one; for the next ones it is `step` bytes on. */
#if TC_RVV_ASM

#define TC_RVV_POINTER(name, at) "lw     " name ", " at "(a1)\n" "add    " name ", " name ", s10\n"
#define TC_RVV_HELD(v) "vle8.v " v ", (t0)\n" "add    t0, t0, a5\n"
#define TC_RVV_PRODUCT(name, x, from, w)                                                                   \
    "vle8.v " x ", (" from ")\n"                                                                           \
    "add    " from ", " from ", a4\n"                                                                      \
    name " v20, " x ", " w "\n"
#define TC_RVV_FLUSH(add)                                                                                  \
    "vsetvli zero, zero, e16, m4, ta, ma\n"                                                                \
    add                                                                                                    \
    "vsetvli zero, zero, e8, m2, ta, ma\n"
#define TC_RVV_FIRST "vwadd.vx v24, v20, zero\n"
#define TC_RVV_NEXT "vwadd.wv v24, v24, v20\n"

/* Channels that fit vectors, one after the other: a6 weights, a7 constants, s9 place of the outputs, s10
 * bytes from a pixel's first channel, t6 channels that are left. */
#define TC_RVV_NEXT_CHANNELS                                                                               \
    "csrr   t0, vl\n"                                                                                      \
    "add    s9, s9, t0\n"                                                                                  \
    "add    s10, s10, t0\n"                                                                                \
    "add    a6, a6, t0\n"                                                                                  \
    "slli   t1, t0, 2\n"                                                                                   \
    "add    a7, a7, t1\n"                                                                                  \
    "sub    t6, t6, t0\n"                                                                                  \
    "bnez   t6, 1b\n"

/* Nine taps in s0-s8; eight weights in v0-v15, the last one at s11, which is loaded again for each pixel: the
 * constants take its place. x in v16-v19, sums of 16 bits in v20-v23. t3 pixels that are left, t4 outputs. */
#define TC_RVV_NINE(taps)                                                                                  \
    "addi   sp, sp, -48\n"                                                                                 \
    "sw     s0, 0(sp)\n"                                                                                   \
    "sw     s1, 4(sp)\n"                                                                                   \
    "sw     s2, 8(sp)\n"                                                                                   \
    "sw     s3, 12(sp)\n"                                                                                  \
    "sw     s4, 16(sp)\n"                                                                                  \
    "sw     s5, 20(sp)\n"                                                                                  \
    "sw     s6, 24(sp)\n"                                                                                  \
    "sw     s7, 28(sp)\n"                                                                                  \
    "sw     s8, 32(sp)\n"                                                                                  \
    "sw     s9, 36(sp)\n"                                                                                  \
    "sw     s10, 40(sp)\n"                                                                                 \
    "sw     s11, 44(sp)\n"                                                                                 \
    "mv     t6, a5\n"                                                                                      \
    "lw     a5, 8(a0)\n"                                                                                   \
    "lw     a6, 0(a0)\n"                                                                                   \
    "lw     a7, 4(a0)\n"                                                                                   \
    "mv     s9, a2\n"                                                                                      \
    "li     s10, 0\n"                                                                                      \
    "csrwi  vxrm, 0\n"                                                                                     \
    "1:\n"                                                                                                 \
    "vsetvli zero, t6, e8, m2, ta, ma\n"                                                                   \
    TC_RVV_POINTER("s0", "0") TC_RVV_POINTER("s1", "4") TC_RVV_POINTER("s2", "8")                          \
    TC_RVV_POINTER("s3", "12") TC_RVV_POINTER("s4", "16") TC_RVV_POINTER("s5", "20")                       \
    TC_RVV_POINTER("s6", "24") TC_RVV_POINTER("s7", "28") TC_RVV_POINTER("s8", "32")                       \
    "mv     t0, a6\n"                                                                                      \
    TC_RVV_HELD("v0") TC_RVV_HELD("v2") TC_RVV_HELD("v4") TC_RVV_HELD("v6")                                \
    TC_RVV_HELD("v8") TC_RVV_HELD("v10") TC_RVV_HELD("v12") TC_RVV_HELD("v14")                             \
    "mv     s11, t0\n"                                                                                     \
    "mv     t3, a3\n"                                                                                      \
    "mv     t4, s9\n"                                                                                      \
    "8:\n"                                                                                                 \
    taps                                                                                                   \
    TC_RVV_FINISH(ONE, "v16")                                                                              \
    "vse8.v v24, (t4)\n"                                                                                   \
    "add    t4, t4, a5\n"                                                                                  \
    "addi   t3, t3, -1\n"                                                                                  \
    "bnez   t3, 8b\n"                                                                                      \
    TC_RVV_NEXT_CHANNELS                                                                                   \
    "lw     s0, 0(sp)\n"                                                                                   \
    "lw     s1, 4(sp)\n"                                                                                   \
    "lw     s2, 8(sp)\n"                                                                                   \
    "lw     s3, 12(sp)\n"                                                                                  \
    "lw     s4, 16(sp)\n"                                                                                  \
    "lw     s5, 20(sp)\n"                                                                                  \
    "lw     s6, 24(sp)\n"                                                                                  \
    "lw     s7, 28(sp)\n"                                                                                  \
    "lw     s8, 32(sp)\n"                                                                                  \
    "lw     s9, 36(sp)\n"                                                                                  \
    "lw     s10, 40(sp)\n"                                                                                 \
    "lw     s11, 44(sp)\n"                                                                                 \
    "addi   sp, sp, 48\n"

#define TC_RVV_LAST_WEIGHT "vle8.v v16, (s11)\n"

/* Sums of three products fit 16 bits. */
static TC_NAKED void tc_rvv_depthwise_threes(const tc_rvv_out_t *p TC_UNUSED,
                                             const int8_t *const *from TC_UNUSED, int8_t *y TC_UNUSED,
                                             int32_t pixels TC_UNUSED, int32_t step TC_UNUSED,
                                             int32_t channels TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        TC_RVV_NINE(
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s0", "v0")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s1", "v2")
            TC_RVV_PRODUCT("vwmacc.vv", "v16", "s2", "v4")
            TC_RVV_FLUSH(TC_RVV_FIRST)
            TC_RVV_PRODUCT("vwmul.vv", "v18", "s3", "v6")
            TC_RVV_PRODUCT("vwmacc.vv", "v16", "s4", "v8")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s5", "v10")
            TC_RVV_FLUSH(TC_RVV_NEXT)
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s6", "v12")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s7", "v14")
            TC_RVV_LAST_WEIGHT
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s8", "v16")
            "vsetvli zero, zero, e16, m4, ta, ma\n"
            TC_RVV_NEXT)
        "ret\n"));
}

/* Sums of two products do. */
static TC_NAKED void tc_rvv_depthwise_pairs(const tc_rvv_out_t *p TC_UNUSED,
                                            const int8_t *const *from TC_UNUSED, int8_t *y TC_UNUSED,
                                            int32_t pixels TC_UNUSED, int32_t step TC_UNUSED,
                                            int32_t channels TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        TC_RVV_NINE(
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s0", "v0")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s1", "v2")
            TC_RVV_FLUSH(TC_RVV_FIRST)
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s2", "v4")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s3", "v6")
            TC_RVV_FLUSH(TC_RVV_NEXT)
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s4", "v8")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s5", "v10")
            TC_RVV_FLUSH(TC_RVV_NEXT)
            TC_RVV_PRODUCT("vwmul.vv", "v16", "s6", "v12")
            TC_RVV_PRODUCT("vwmacc.vv", "v18", "s7", "v14")
            TC_RVV_FLUSH(TC_RVV_NEXT)
            TC_RVV_LAST_WEIGHT
            TC_RVV_PRODUCT("vwmul.vv", "v18", "s8", "v16")
            "vsetvli zero, zero, e16, m4, ta, ma\n"
            TC_RVV_NEXT)
        "ret\n"));
}

/* Any taps: one after the other, with their weights from memory. s0 bytes of a segment's pointers, s1 their
 * end, s2 that of a segment, s3 pixels that are left, s4 bytes from the first pixel's first channel, s5
 * outputs, t3 weights of a tap, t4 its pointer. */
static TC_NAKED void tc_rvv_depthwise_taps(const tc_rvv_out_t *p TC_UNUSED,
                                           const int8_t *const *from TC_UNUSED, int8_t *y TC_UNUSED,
                                           int32_t pixels TC_UNUSED, int32_t step TC_UNUSED,
                                           int32_t segment TC_UNUSED, int32_t channels TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "addi   sp, sp, -32\n"
        "sw     s0, 0(sp)\n"
        "sw     s1, 4(sp)\n"
        "sw     s2, 8(sp)\n"
        "sw     s3, 12(sp)\n"
        "sw     s4, 16(sp)\n"
        "sw     s5, 20(sp)\n"
        "sw     s9, 24(sp)\n"
        "sw     s10, 28(sp)\n"
        "slli   s0, a5, 2\n"
        "lw     s1, 12(a0)\n"
        "slli   s1, s1, 2\n"
        "add    s1, s1, a1\n"
        "mv     t6, a6\n"
        "lw     a5, 8(a0)\n"
        "lw     a6, 0(a0)\n"
        "lw     a7, 4(a0)\n"
        "mv     s9, a2\n"
        "li     s10, 0\n"
        "csrwi  vxrm, 0\n"
        "1:\n"
        "vsetvli zero, t6, e8, m2, ta, ma\n"
        "mv     s3, a3\n"
        "mv     s4, s10\n"
        "mv     s5, s9\n"
        "8:\n"
        "vsetvli zero, zero, e32, m8, ta, ma\n"
        "vmv.v.i v24, 0\n"
        "mv     t3, a6\n"
        "mv     t4, a1\n"
        "2:\n"
        "add    s2, t4, s0\n"
        "bgeu   s1, s2, 3f\n"
        "mv     s2, s1\n"
        "3:\n"
        "vsetvli zero, zero, e16, m4, ta, ma\n"
        "vmv.v.i v20, 0\n"
        "vsetvli zero, zero, e8, m2, ta, ma\n"
        "3:\n"
        "lw     t0, 0(t4)\n"
        "addi   t4, t4, 4\n"
        "add    t0, t0, s4\n"
        "vle8.v v18, (t0)\n"
        "vle8.v v16, (t3)\n"
        "add    t3, t3, a5\n"
        "vwmacc.vv v20, v18, v16\n"
        "bne    t4, s2, 3b\n"
        "vsetvli zero, zero, e16, m4, ta, ma\n"
        TC_RVV_NEXT
        "bne    t4, s1, 2b\n"
        TC_RVV_FINISH(ONE, "v16")
        "vse8.v v24, (s5)\n"
        "add    s5, s5, a5\n"
        "add    s4, s4, a4\n"
        "addi   s3, s3, -1\n"
        "bnez   s3, 8b\n"
        TC_RVV_NEXT_CHANNELS
        "lw     s0, 0(sp)\n"
        "lw     s1, 4(sp)\n"
        "lw     s2, 8(sp)\n"
        "lw     s3, 12(sp)\n"
        "lw     s4, 16(sp)\n"
        "lw     s5, 20(sp)\n"
        "lw     s9, 24(sp)\n"
        "lw     s10, 28(sp)\n"
        "addi   sp, sp, 32\n"
        "ret\n"));
}

#else

static TC_UNUSED void tc_rvv_depthwise_taps(const tc_rvv_out_t *p, const int8_t *const *from, int8_t *y,
                                            int32_t pixels, int32_t step, int32_t segment, int32_t channels)
{
    for (int32_t i = 0; i < pixels; i++) {
        for (int32_t c = 0; c < channels; c++) {
            int32_t sum = 0;
            for (int32_t first = 0; first < p->taps; first += segment) {
                int16_t part = 0;
                for (int32_t k = first; k < p->taps && k < first + segment; k++) {
                    part = (int16_t)(part + from[k][i * step + c] * p->w[k * p->out_c + c]);
                }
                sum += part;
            }
            y[i * p->out_c + c] = tc_rvv_output(p, sum, c);
        }
    }
}

#endif

static inline void tc_rvv_depthwise(const tc_depthwise_conv2d_s8_rvv_t *p, const int8_t *const *from,
                                    int8_t *y, int32_t pixels, int32_t step, int32_t channels)
{
#if TC_RVV_ASM
    if (p->held && p->segment == 3) {
        tc_rvv_depthwise_threes(&p->out, from, y, pixels, step, channels);
        return;
    }
    if (p->held) {
        tc_rvv_depthwise_pairs(&p->out, from, y, pixels, step, channels);
        return;
    }
#endif
    tc_rvv_depthwise_taps(&p->out, from, y, pixels, step, p->segment, channels);
}

/* n neighbouring pixels that are wholly inside, or one. */
static TC_UNUSED void tc_rvv_depthwise_run(const tc_depthwise_conv2d_s8_rvv_t *p, const int8_t **from,
                                           int8_t *y, int32_t n)
{
    const int32_t channels = p->window.in_c, together = p->together, taps = p->out.taps;

    if (together == 1) {
        tc_rvv_depthwise(p, from, y, n, p->window.stride_w * channels, channels);
    } else if (n >= together) { /* the last ones overlap those before */
        const int32_t wide = n / together, last = (n - together) * channels;
        tc_rvv_depthwise(p, from, y, wide, p->out.out_c, p->out.out_c);
        for (int32_t k = 0; k < taps && wide * together < n; k++) {
            from[k] += last;
        }
        if (wide * together < n) tc_rvv_depthwise(p, from, y + last, 1, 0, p->out.out_c);
    } else {
        for (int32_t i = 0; i < n; i++, y += channels) {
            tc_rvv_depthwise(p, from, y, 1, 0, channels);
            for (int32_t k = 0; k < taps && i + 1 < n; k++) {
                from[k] += channels;
            }
        }
    }
}

static TC_UNUSED void tc_depthwise_conv2d_s8_rvv(const tc_depthwise_conv2d_s8_rvv_t *p,
                                                 const int8_t *const *x, int8_t *y)
{
    const tc_rvv_window_t *const window = &p->window;
    const int32_t channels = window->in_c, stride = window->stride_w,
        reach = (window->k_w - 1) * window->dilation_w;
    int32_t n;

    for (int32_t ox = 0; ox < window->out_w; ox += n, y += n * channels) {
        const int8_t *from[TC_RVV_MOST_TAPS];
        const int32_t first = ox * stride - window->pad_left;
        int32_t k = 0;
        n = 1;
        if (first >= 0 && first + reach < window->in_w) { /* as many as are inside, too */
            n = (window->in_w - 1 - reach - first) / stride + 1;
            if (n > window->out_w - ox) n = window->out_w - ox;
        }
        for (int32_t ky = 0; ky < window->k_h; ky++) {
            for (int32_t kx = 0, ix = first; kx < window->k_w; kx++, ix += window->dilation_w) {
                from[k++] = ix >= 0 && ix < window->in_w ? x[ky] + ix * channels : window->pad;
            }
        }
        tc_rvv_depthwise_run(p, from, y, n);
    }
}

#endif
