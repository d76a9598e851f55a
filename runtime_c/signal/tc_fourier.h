/* SPDX-License-Identifier: 0BSD */
/* The fixed-point Fourier transforms of tinyc/ops/fourier.py: what is the same for int16 and int32.
 *
 * Included once per type, with TC_F_TYPE the parameters and TC_F(name) the functions of that type,
 * TC_F_NARROW its numbers, TC_F_WIDE their products, TC_F_BITS the bits of their fraction. A point is two
 * numbers, real and imaginary part.
 */

typedef struct {
    const TC_F_NARROW *twiddles; /* [half][2] */
    const TC_F_NARROW *split; /* [half / 2][2] */
    const uint16_t *order; /* [half / radix]: the first point of each butterfly of the first step */
    int32_t half, radix; /* points; 4 or 2, of the first step */
    int32_t samples, lines; /* of a line: numbers that are there, 0 beyond */
} TC_F_TYPE;

static inline TC_F_NARROW TC_F(tc_f_narrow)(TC_F_WIDE v) /* modulo 2^16, or 2^32 */
{
    return (TC_F_NARROW)v;
}

static inline TC_F_NARROW TC_F(tc_f_round)(TC_F_WIDE v)
{
    return TC_F(tc_f_narrow)((v + ((TC_F_WIDE)1 << (TC_F_BITS - 1))) >> TC_F_BITS);
}

static inline TC_F_NARROW TC_F(tc_f_over)(TC_F_WIDE v, int32_t divisor)
{
    const TC_F_WIDE one = (TC_F_WIDE)(((int64_t)1 << TC_F_BITS) - 1);
    return TC_F(tc_f_round)(v * (one / divisor));
}

/* z * t, z in place */
static inline void TC_F(tc_f_turn)(TC_F_NARROW *z, const TC_F_NARROW *t)
{
    const TC_F_WIDE re = z[0], im = z[1];
    z[0] = TC_F(tc_f_round)(re * t[0] - im * t[1]);
    z[1] = TC_F(tc_f_round)(re * t[1] + im * t[0]);
}

/* y = x + f * by, of points */
static inline void TC_F(tc_f_add)(const TC_F_NARROW *x, const TC_F_NARROW *f, int32_t by, TC_F_NARROW *y)
{
    y[0] = TC_F(tc_f_narrow)((TC_F_WIDE)x[0] + (TC_F_WIDE)by * f[0]);
    y[1] = TC_F(tc_f_narrow)((TC_F_WIDE)x[1] + (TC_F_WIDE)by * f[1]);
}

/* Four parts that have been divided and turned -> points at z, z + m, z + 2 m, z + 3 m. turn: 1, or -1 for
 * the way back. */
static inline void TC_F(tc_f_four)(TC_F_NARROW (*part)[2], int32_t turn, TC_F_NARROW *z, int32_t m)
{
    TC_F_NARROW sum[2], difference[2], both[2], apart[2], quarter[2];

    TC_F(tc_f_add)(part[0], part[2], 1, sum);
    TC_F(tc_f_add)(part[0], part[2], -1, difference);
    TC_F(tc_f_add)(part[1], part[3], 1, both);
    TC_F(tc_f_add)(part[1], part[3], -1, apart);
    quarter[0] = apart[1];
    quarter[1] = TC_F(tc_f_narrow)(-(TC_F_WIDE)apart[0]);
    TC_F(tc_f_add)(sum, both, 1, z);
    TC_F(tc_f_add)(difference, quarter, turn, z + 2 * m);
    TC_F(tc_f_add)(sum, both, -1, z + 4 * m);
    TC_F(tc_f_add)(difference, quarter, -turn, z + 6 * m);
}

/* The first step: points of x in the order of the butterflies, whose twiddles are 1. */
static inline void TC_F(tc_f_first)(const TC_F_TYPE * p, const TC_F_NARROW *x, int32_t turn, TC_F_NARROW *z)
{
    const int32_t rest = p->half / p->radix;

    for (int32_t i = 0; i < rest; i++, z += 2 * p->radix) {
        TC_F_NARROW part[4][2];
        for (int32_t q = 0; q < p->radix; q++) {
            const int32_t at = 2 * (p->order[i] + q * rest);
            part[q][0] = at < p->samples ? TC_F(tc_f_over)(x[at], p->radix) : 0;
            part[q][1] = at + 1 < p->samples ? TC_F(tc_f_over)(x[at + 1], p->radix) : 0;
        }
        if (p->radix == 4) {
            TC_F(tc_f_four)(part, turn, z, 1);
        } else {
            TC_F(tc_f_add)(part[0], part[1], 1, z);
            TC_F(tc_f_add)(part[0], part[1], -1, z + 2);
        }
    }
}

/* The other steps, all of radix 4, in place. */
static inline void TC_F(tc_f_steps)(const TC_F_TYPE * p, int32_t turn, TC_F_NARROW *z)
{
    for (int32_t m = p->radix; m < p->half; m *= 4) {
        const int32_t stride = p->half / (4 * m);
        for (int32_t base = 0; base < p->half; base += 4 * m) {
            for (int32_t k = 0; k < m; k++) {
                TC_F_NARROW part[4][2];
                for (int32_t q = 0; q < 4; q++) {
                    const TC_F_NARROW *from = z + 2 * (base + q * m + k);
                    part[q][0] = TC_F(tc_f_over)(from[0], 4);
                    part[q][1] = TC_F(tc_f_over)(from[1], 4);
                    if (q > 0) {
                        TC_F(tc_f_turn)(part[q], p->twiddles + 2 * q * k * stride);
                    }
                }
                TC_F(tc_f_four)(part, turn, z + 2 * (base + k), m);
            }
        }
    }
}

/* (a + b) >> 1, the sum in 32 bits */
static inline TC_F_NARROW TC_F(tc_f_mean)(TC_F_NARROW a, TC_F_NARROW b)
{
    return (TC_F_NARROW)((int32_t)((uint32_t)(int32_t)a + (uint32_t)(int32_t)b) >> 1);
}
static inline TC_F_NARROW TC_F(tc_f_mean_less)(TC_F_NARROW a, TC_F_NARROW b)
{
    return (TC_F_NARROW)((int32_t)((uint32_t)(int32_t)a - (uint32_t)(int32_t)b) >> 1);
}

/* Points k and half - k of z, halved, the second with its imaginary part turned round -> their sum, and their
 * difference turned. */
static inline void TC_F(tc_f_pair)(const TC_F_TYPE * p, const TC_F_NARROW *z, int32_t k, TC_F_NARROW *sum,
                                   TC_F_NARROW *turned)
{
    const TC_F_NARROW *a = z + 2 * k, *b = z + 2 * (p->half - k);
    TC_F_NARROW one[2], other[2];

    one[0] = TC_F(tc_f_over)(a[0], 2);
    one[1] = TC_F(tc_f_over)(a[1], 2);
    other[0] = TC_F(tc_f_over)(b[0], 2);
    other[1] = TC_F(tc_f_over)(TC_F(tc_f_narrow)(-(TC_F_WIDE)b[1]), 2);
    TC_F(tc_f_add)(one, other, 1, sum);
    TC_F(tc_f_add)(one, other, -1, turned);
    TC_F(tc_f_turn)(turned, p->split + 2 * (k - 1));
}

/* The transform of a line: `samples` numbers -> half + 1 points. */
static inline void TC_F(tc_f_forward)(const TC_F_TYPE * p, const TC_F_NARROW *x, TC_F_NARROW *y)
{
    TC_F_NARROW first, last;

    TC_F(tc_f_first)(p, x, 1, y);
    TC_F(tc_f_steps)(p, 1, y);
    first = TC_F(tc_f_over)(y[0], 2);
    last = TC_F(tc_f_over)(y[1], 2);
    for (int32_t k = 1; 2 * k <= p->half; k++) {
        TC_F_NARROW a[2], b[2], *low = y + 2 * k, *high = y + 2 * (p->half - k);
        TC_F(tc_f_pair)(p, y, k, a, b);
        low[0] = TC_F(tc_f_mean)(a[0], b[0]);
        low[1] = TC_F(tc_f_mean)(a[1], b[1]);
        high[0] = TC_F(tc_f_mean_less)(a[0], b[0]);
        high[1] = TC_F(tc_f_mean_less)(b[1], a[1]);
    }
    y[0] = TC_F(tc_f_narrow)((TC_F_WIDE)first + last);
    y[1] = 0;
    y[2 * p->half] = TC_F(tc_f_narrow)((TC_F_WIDE)first - last);
    y[2 * p->half + 1] = 0;
}

/* And back: half + 1 points -> 2 half numbers. z: half points of scratch. */
static inline void TC_F(tc_f_backward)(const TC_F_TYPE * p, const TC_F_NARROW *x, TC_F_NARROW *z,
                                       TC_F_NARROW *y)
{
    const int32_t h = 2 * p->half;

    z[0] = TC_F(tc_f_over)(TC_F(tc_f_narrow)((TC_F_WIDE)x[0] + x[h]), 2);
    z[1] = TC_F(tc_f_over)(TC_F(tc_f_narrow)((TC_F_WIDE)x[0] - x[h]), 2);
    for (int32_t k = 1; 2 * k <= p->half; k++) {
        TC_F_NARROW a[2], b[2], *high = z + 2 * (p->half - k);
        TC_F(tc_f_pair)(p, x, k, a, b);
        TC_F(tc_f_add)(a, b, 1, z + 2 * k);
        TC_F(tc_f_add)(a, b, -1, high);
        high[1] = TC_F(tc_f_narrow)(-(TC_F_WIDE)high[1]);
    }
    TC_F(tc_f_first)(p, z, -1, y);
    TC_F(tc_f_steps)(p, -1, y);
}
