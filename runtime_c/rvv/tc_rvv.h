/* SPDX-License-Identifier: 0BSD */
/* Layers with RISC-V's vectors of integers (Zve32x), for any length of a vector register.
 *
 * Lanes are output channels: a tap of a pixel is a number, multiplied with its weights of as many channels as
 * eight registers hold sums of (32 where registers have 128 bits). Sums become int8 in their lanes, in one of
 * three ways, which is the layer's (tinyc/kernels/rvv/finish.py), with the rounding of the instructions, to
 * nearest and halves up:
 *
 *   PLAIN    X = sum * power + start, y = saturate8(high word of X * mult / 2^shift), proved to be the
 *            layer's outputs
 *   DEFINED  t = X * mult / 2^31, minus 1 if negative; y = saturate8(t / 2^channel's shift + y_zero):
 *            TensorFlow Lite's definition
 *   ADDED    y = saturate8((high word of X * mult + add) / 2^channel's shift), proved
 *
 * Other machines run the same in C. Functions in assembly change vector registers, vl, vtype and vxrm, as
 * every call may.
 */
#ifndef TC_RVV_H
#define TC_RVV_H

#include "tc_math.h"

/* TC_ZVE32X: the core has them, whatever the compiler may use for C. */
#if TC_GNU && (defined(__riscv_zve32x) || defined(TC_ZVE32X)) && __riscv_xlen == 32
#define TC_RVV_ASM 1
#else
#define TC_RVV_ASM 0
#endif

enum { TC_RVV_PLAIN, TC_RVV_DEFINED, TC_RVV_ADDED };

/* The functions in assembly know where the fields are. */
typedef struct {
    const int8_t *w;          /* [taps][out_c] */
    const int32_t *constants; /* [out_c] each: start, mult; of DEFINED shift, of ADDED add and shift */
    int32_t out_c, taps, power, way, shift, y_zero;
    int32_t clamps, y_min, y_max; /* clamps: whether y_min or y_max is inside the range of int8 */
} tc_rvv_out_t;

/* The horizontal geometry of a convolution; pad: at least in_c bytes of x_zero. */
typedef struct {
    const int8_t *pad;
    int32_t in_w, in_c, out_w, k_h, k_w, stride_w, pad_left, dilation_w;
} tc_rvv_window_t;

#if TC_RVV_ASM

#define TC_RVV_CODE(text) ".option push\n.option arch, +zicsr, +zve32x\n" text ".option pop\n"

#define TC_RVV_POWER "16(a0)"
#define TC_RVV_WAY "20(a0)"
#define TC_RVV_SHIFT "24(a0)"
#define TC_RVV_Y_ZERO "28(a0)"
#define TC_RVV_CLAMPS "32(a0)"
#define TC_RVV_Y_MIN "36(a0)"
#define TC_RVV_Y_MAX "40(a0)"

/* An instruction for the sums of three pixels, or of one. TIMES, LESS: with a vector that has the factors'
 * place, or any. */
#define TC_RVV_THREE(name, rest) name " v8, v8" rest "\n" name " v16, v16" rest "\n"                         \
    name " v24, v24" rest "\n"
#define TC_RVV_ONE(name, rest) name " v24, v24" rest "\n"
#define TC_RVV_TIMES(sums, v) "vmadd.vx " sums ", t0, " v "\n"
#define TC_RVV_TIMES_THREE(v) TC_RVV_TIMES("v8", v) TC_RVV_TIMES("v16", v) TC_RVV_TIMES("v24", v)
#define TC_RVV_TIMES_ONE(v) TC_RVV_TIMES("v24", v)
#define TC_RVV_LESS(sums, v) "vsra.vx " v ", " sums ", t0\n" "vadd.vv " sums ", " sums ", " v "\n"           \
    /* t0: 31 */
#define TC_RVV_LESS_THREE(v) TC_RVV_LESS("v8", v) TC_RVV_LESS("v16", v) TC_RVV_LESS("v24", v)
#define TC_RVV_LESS_ONE(v) TC_RVV_LESS("v24", v)

/* Sums in v24-v31, and v8-v15, v16-v23 where there are THREE, -> bytes in v24-v25, v8-v9, v16-v17; vtype is
 * int8 then. v: eight registers for constants. a7: constants of these channels, a5: out_c; t0-t2 and t5 are
 * changed. vl counts channels, for any width of lanes. */
#define TC_RVV_FINISH(PIXELS, v)                                                                           \
    "vsetvli zero, zero, e32, m8, ta, ma\n"                                                                \
    "lw     t0, " TC_RVV_POWER "\n"                                                                        \
    "vle32.v " v ", (a7)\n"                                                                                \
    "slli   t1, a5, 2\n"                                                                                   \
    "add    t2, a7, t1\n"                                                                                  \
    TC_RVV_TIMES_##PIXELS(v)                                                                               \
    "vle32.v " v ", (t2)\n"                                                                                \
    "lw     t0, " TC_RVV_WAY "\n"                                                                          \
    "lw     t5, " TC_RVV_SHIFT "\n"                                                                        \
    "bnez   t0, 5f\n"                                                                                      \
    TC_RVV_##PIXELS("vmulh.vv", ", " v)                                                                    \
    "4:\n"                                                                                                 \
    "vsetvli zero, zero, e16, m4, ta, ma\n"                                                                \
    TC_RVV_##PIXELS("vnclip.wx", ", t5")                                                                   \
    "lw     t0, " TC_RVV_Y_ZERO "\n"                                                                       \
    "lw     t1, " TC_RVV_CLAMPS "\n"                                                                       \
    "beqz   t0, 6f\n"                                                                                      \
    TC_RVV_##PIXELS("vsadd.vx", ", t0")                                                                    \
    "6:\n"                                                                                                 \
    "vsetvli zero, zero, e8, m2, ta, ma\n"                                                                 \
    TC_RVV_##PIXELS("vnclip.wi", ", 0")                                                                    \
    "beqz   t1, 7f\n"                                                                                      \
    "lw     t0, " TC_RVV_Y_MIN "\n"                                                                        \
    "lw     t1, " TC_RVV_Y_MAX "\n"                                                                        \
    TC_RVV_##PIXELS("vmax.vx", ", t0")                                                                     \
    TC_RVV_##PIXELS("vmin.vx", ", t1")                                                                     \
    "j      7f\n"                                                                                          \
    "5:\n"                                                                                                 \
    "add    t2, t2, t1\n"                                                                                  \
    "addi   t0, t0, -1\n"                                                                                  \
    "bnez   t0, 6f\n"                                                                                      \
    TC_RVV_##PIXELS("vsmul.vv", ", " v) /* DEFINED */                                                      \
    "li     t0, 31\n"                                                                                      \
    TC_RVV_LESS_##PIXELS(v)                                                                                \
    "vle32.v " v ", (t2)\n"                                                                                \
    TC_RVV_##PIXELS("vssra.vv", ", " v)                                                                    \
    "j      4b\n"                                                                                          \
    "6:\n"                                                                                                 \
    TC_RVV_##PIXELS("vmulh.vv", ", " v) /* ADDED */                                                        \
    "vle32.v " v ", (t2)\n"                                                                                \
    "add    t2, t2, t1\n"                                                                                  \
    TC_RVV_##PIXELS("vadd.vv", ", " v)                                                                     \
    "vle32.v " v ", (t2)\n"                                                                                \
    TC_RVV_##PIXELS("vssra.vv", ", " v)                                                                    \
    "j      4b\n"                                                                                          \
    "7:\n"

/* What both functions below begin and end with. a6: weights, t3: those of a tap, t4: taps, t5: their end, t6:
 * channels that are left. */
#define TC_RVV_BEGIN(sums)                                                                                 \
    "lw     a5, 8(a0)\n"                                                                                   \
    "lw     a6, 0(a0)\n"                                                                                   \
    "lw     a7, 4(a0)\n"                                                                                   \
    "mv     t6, a5\n"                                                                                      \
    "csrwi  vxrm, 0\n" /* to nearest, halves up */                                                         \
    "1:\n"                                                                                                 \
    "vsetvli zero, t6, e32, m8, ta, ma\n"                                                                  \
    sums                                                                                                   \
    "lw     t0, 12(a0)\n"                                                                                  \
    "mv     t3, a6\n"                                                                                      \
    "mv     t4, a1\n"                                                                                      \
    "vsetvli zero, zero, e16, m4, ta, ma\n"

#define TC_RVV_END                                                                                         \
    "csrr   t0, vl\n"                                                                                      \
    "add    a2, a2, t0\n"                                                                                  \
    "add    a6, a6, t0\n"                                                                                  \
    "slli   t1, t0, 2\n"                                                                                   \
    "add    a7, a7, t1\n"                                                                                  \
    "sub    t6, t6, t0\n"                                                                                  \
    "bnez   t6, 1b\n"                                                                                      \
    "ret\n"

#define TC_RVV_WEIGHTS                                                                                     \
    "vle8.v v4, (t3)\n"                                                                                    \
    "add    t3, t3, a5\n"                                                                                  \
    "vsext.vf2 v0, v4\n"

#define TC_RVV_TAP3(at0, at1, at2)                                                                         \
    "lb     t0, " at0 "(t4)\n"                                                                             \
    "lb     t1, " at1 "(t4)\n"                                                                             \
    "lb     t2, " at2 "(t4)\n"                                                                             \
    TC_RVV_WEIGHTS                                                                                         \
    "vwmacc.vx v8, t0, v0\n"                                                                               \
    "vwmacc.vx v16, t1, v0\n"                                                                              \
    "vwmacc.vx v24, t2, v0\n"

#define TC_RVV_TAP1(at0)                                                                                   \
    "lb     t0, " at0 "(t4)\n"                                                                             \
    TC_RVV_WEIGHTS                                                                                         \
    "vwmacc.vx v24, t0, v0\n"

#endif

/* One output of a sum of products. */
#if !TC_RVV_ASM

static TC_UNUSED int8_t tc_rvv_output(const tc_rvv_out_t *p, int32_t sum, int32_t o)
{
    const int32_t *constants = p->constants + o;
    const int32_t x = (int32_t)((uint32_t)sum * (uint32_t)p->power + (uint32_t)constants[0]);
    const int64_t product = (int64_t)x * constants[p->out_c];
    int64_t t = product >> 32;
    int32_t shift = p->shift;
    if (p->way == TC_RVV_DEFINED) {
        t = (product + ((int64_t)1 << 30)) >> 31;
        if (t < 0) t -= 1;
        shift = constants[2 * p->out_c];
    } else if (p->way == TC_RVV_ADDED) {
        t += constants[2 * p->out_c];
        shift = constants[3 * p->out_c];
    }
    if (shift > 0) t = (t + ((int64_t)1 << (shift - 1))) >> shift;
    t += p->y_zero;
    return (int8_t)(t < p->y_min ? p->y_min : t > p->y_max ? p->y_max : t);
}

#endif

/* Taps x [taps][3] of three pixels -> their bytes [out_c] at y, y + second and y + third, written in this
 * order: for fewer pixels the last places are theirs, and what is made of other taps is written over. */
#if TC_RVV_ASM

static TC_NAKED void tc_rvv_pixels(const tc_rvv_out_t *p TC_UNUSED, const int8_t *x TC_UNUSED,
                                   int8_t *y TC_UNUSED, int32_t second TC_UNUSED, int32_t third TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        TC_RVV_BEGIN("vmv.v.i v8, 0\n" "vmv.v.i v16, 0\n" "vmv.v.i v24, 0\n")
        "andi   t1, t0, -4\n"
        "slli   t2, t1, 1\n"
        "add    t5, t1, t2\n"
        "add    t5, t5, t4\n" /* end of the fours */
        "beqz   t1, 3f\n"
        "2:\n"
        TC_RVV_TAP3("0", "1", "2")
        TC_RVV_TAP3("3", "4", "5")
        TC_RVV_TAP3("6", "7", "8")
        TC_RVV_TAP3("9", "10", "11")
        "addi   t4, t4, 12\n"
        "bne    t4, t5, 2b\n"
        "3:\n"
        "lw     t0, 12(a0)\n"
        "slli   t1, t0, 1\n"
        "add    t5, t0, t1\n"
        "add    t5, t5, a1\n" /* end of all */
        "beq    t4, t5, 3f\n"
        "2:\n"
        TC_RVV_TAP3("0", "1", "2")
        "addi   t4, t4, 3\n"
        "bne    t4, t5, 2b\n"
        "3:\n"
        TC_RVV_FINISH(THREE, "v0")
        "vse8.v v8, (a2)\n"
        "add    t0, a2, a3\n"
        "vse8.v v16, (t0)\n"
        "add    t0, a2, a4\n"
        "vse8.v v24, (t0)\n"
        TC_RVV_END));
}

#else

static TC_UNUSED void tc_rvv_pixels(const tc_rvv_out_t *p, const int8_t *x, int8_t *y, int32_t second,
                                    int32_t third)
{
    const int32_t places[3] = {0, second, third};
    for (int32_t o = 0; o < p->out_c; o++) {
        for (int32_t i = 0; i < 3; i++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < p->taps; k++) {
                sum += x[3 * k + i] * p->w[k * p->out_c + o];
            }
            y[places[i] + o] = tc_rvv_output(p, sum, o);
        }
    }
}

#endif

/* Taps x [taps] -> y [out_c]. */
#if TC_RVV_ASM

static TC_NAKED void tc_rvv_pixel(const tc_rvv_out_t *p TC_UNUSED, const int8_t *x TC_UNUSED,
                                  int8_t *y TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        TC_RVV_BEGIN("vmv.v.i v24, 0\n")
        "andi   t1, t0, -4\n"
        "add    t5, t1, t4\n" /* end of the fours */
        "beqz   t1, 3f\n"
        "2:\n"
        TC_RVV_TAP1("0")
        TC_RVV_TAP1("1")
        TC_RVV_TAP1("2")
        TC_RVV_TAP1("3")
        "addi   t4, t4, 4\n"
        "bne    t4, t5, 2b\n"
        "3:\n"
        "lw     t0, 12(a0)\n"
        "add    t5, t0, a1\n" /* end of all */
        "beq    t4, t5, 3f\n"
        "2:\n"
        TC_RVV_TAP1("0")
        "addi   t4, t4, 1\n"
        "bne    t4, t5, 2b\n"
        "3:\n"
        TC_RVV_FINISH(ONE, "v0")
        "vse8.v v24, (a2)\n"
        TC_RVV_END));
}

#else

static TC_UNUSED void tc_rvv_pixel(const tc_rvv_out_t *p, const int8_t *x, int8_t *y)
{
    for (int32_t o = 0; o < p->out_c; o++) {
        int32_t sum = 0;
        for (int32_t k = 0; k < p->taps; k++) {
            sum += x[k] * p->w[k * p->out_c + o];
        }
        y[o] = tc_rvv_output(p, sum, o);
    }
}

#endif

/* The taps of three pixels: runs of `run` > 0 bytes of `count` rows, from byte `offset` of each row on; those
 * of the next pixel are `step` bytes on -> every third byte of `to`, of the next row `row` bytes on. */
#if TC_RVV_ASM

static TC_NAKED void tc_rvv_spread_three(const int8_t *const *rows TC_UNUSED, int32_t offset TC_UNUSED,
                                         int32_t run TC_UNUSED, int32_t count TC_UNUSED, int8_t *to TC_UNUSED,
                                         int32_t step TC_UNUSED, int32_t row TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "li     t5, 3\n"
        "1:\n"
        "vsetvli t0, a2, e8, m8, ta, ma\n"
        "mv     t1, a0\n"
        "mv     t2, a3\n"
        "mv     t3, a4\n"
        "2:\n"
        "lw     t4, 0(t1)\n"
        "addi   t1, t1, 4\n"
        "add    t4, t4, a1\n"
        "vle8.v v8, (t4)\n"
        "add    t4, t4, a5\n"
        "vle8.v v16, (t4)\n"
        "add    t4, t4, a5\n"
        "vle8.v v24, (t4)\n"
        "vsse8.v v8, (t3), t5\n"
        "addi   t4, t3, 1\n"
        "vsse8.v v16, (t4), t5\n"
        "addi   t4, t3, 2\n"
        "vsse8.v v24, (t4), t5\n"
        "addi   t2, t2, -1\n"
        "add    t3, t3, a6\n"
        "bnez   t2, 2b\n"
        "sub    a2, a2, t0\n"
        "slli   t1, t0, 1\n"
        "add    a1, a1, t0\n"
        "add    a4, a4, t0\n"
        "add    a4, a4, t1\n"
        "bnez   a2, 1b\n"
        "ret\n"));
}

/* The same of one pixel. advance: bytes from the pointer of a row to the next one's, 0 for the same row
 * again. */
static TC_NAKED void tc_rvv_spread(const int8_t *const *rows TC_UNUSED, int32_t offset TC_UNUSED,
                                   int32_t run TC_UNUSED, int32_t count TC_UNUSED, int8_t *to TC_UNUSED,
                                   int32_t advance TC_UNUSED, int32_t row TC_UNUSED)
{
    __asm__ volatile(TC_RVV_CODE(
        "li     t5, 3\n"
        "1:\n"
        "vsetvli t0, a2, e8, m8, ta, ma\n"
        "mv     t1, a0\n"
        "mv     t2, a3\n"
        "mv     t3, a4\n"
        "2:\n"
        "lw     t4, 0(t1)\n"
        "add    t1, t1, a5\n"
        "add    t4, t4, a1\n"
        "vle8.v v8, (t4)\n"
        "vsse8.v v8, (t3), t5\n"
        "addi   t2, t2, -1\n"
        "add    t3, t3, a6\n"
        "bnez   t2, 2b\n"
        "sub    a2, a2, t0\n"
        "slli   t1, t0, 1\n"
        "add    a1, a1, t0\n"
        "add    a4, a4, t0\n"
        "add    a4, a4, t1\n"
        "bnez   a2, 1b\n"
        "ret\n"));
}

#else

static TC_UNUSED void tc_rvv_spread(const int8_t *const *rows, int32_t offset, int32_t run, int32_t count,
                                    int8_t *to, int32_t advance, int32_t row)
{
    for (int32_t ky = 0; ky < count; ky++) {
        for (int32_t i = 0; i < run; i++) {
            to[ky * row + 3 * i] = rows[advance ? ky : 0][offset + i];
        }
    }
}

static TC_UNUSED void tc_rvv_spread_three(const int8_t *const *rows, int32_t offset, int32_t run,
                                          int32_t count, int8_t *to, int32_t step, int32_t row)
{
    for (int32_t i = 0; i < 3; i++) {
        tc_rvv_spread(rows, offset + i * step, run, count, to + i, 4, row);
    }
}

#endif

/* The taps of n <= 3 pixels from ox on -> the last n places of to [taps][3]. */
static TC_UNUSED void tc_rvv_gather(const tc_rvv_window_t *p, const int8_t *const *x, int32_t ox, int32_t n,
                                    int8_t *to)
{
    const int32_t in_c = p->in_c, row = 3 * p->k_w * in_c;
    int32_t first = ox * p->stride_w - p->pad_left;

    if (n == 3 && p->dilation_w == 1 && first >= 0 && first + 2 * p->stride_w + p->k_w <= p->in_w) {
        tc_rvv_spread_three(x, first * in_c, p->k_w * in_c, p->k_h, to, p->stride_w * in_c, row);
        return;
    }
    to += 3 - n;
    for (int32_t i = 0; i < n; i++, first += p->stride_w) {
        int8_t *at = to + i;
        for (int32_t kx = 0, columns; kx < p->k_w; kx += columns, at += 3 * columns * in_c) {
            const int32_t ix = first + kx * p->dilation_w;
            columns = 1;
            if (ix < 0 || ix >= p->in_w) {
                tc_rvv_spread(&p->pad, 0, in_c, p->k_h, at, 0, row);
                continue;
            }
            if (p->dilation_w == 1) columns = p->in_w - ix < p->k_w - kx ? p->in_w - ix : p->k_w - kx;
            tc_rvv_spread(x, ix * in_c, columns * in_c, p->k_h, at, 4, row);
        }
    }
}

#endif
