/* SPDX-License-Identifier: 0BSD */
/* One or two rows of a 3x3 convolution by exact fast forms, int8: in plain C what the functions compute that
 * the compiler writes for single layers in assembly.
 *
 * A form makes m outputs of n neighbouring columns with P products, each of a sum of columns (inputs [P][n])
 * and a sum of weights. Rows have a form of their own (row_inputs [row_products][row_n]), product (i, j) is
 * of sum i of rows and sum j of columns; all channels are summed in the product. Output b of row a is the sum
 * of row_sums[a][i] * sums[b][j] * product (i, j), times 2^raised[b] and maybe 3 what it should be. One tile
 * is made at a time, or two neighbours (`together`).
 *
 * factors: [product, in the order of use][step][tile], a step being two int16 of a word: channels 0, 2 or 1,
 * 3 of each four.
 * stream, for each four output channels (two tiles together: each two): their start values, which belong to
 * the first product, then by `walk`
 *   p < 128      the weights of product p = i * products + j: for each word of its factors a word of each
 *       channel
 *   128 + a*m+b  mult, add[, shift or drop] of each channel, of output b of row a;
 *       then the output is complete
 *
 * The sum X of an output, its 3 divided out, becomes saturate8((high word of X * mult + add) >> (shift +
 * raised)); with `sign`, the high word is rounded and 1 is subtracted for X < 0; with `drops` too, it is not
 * rounded and the channel's drop is subtracted. `lowers`: X is shifted down by `raised` first instead.
 */
#ifndef TC_ROW_TILES_H
#define TC_ROW_TILES_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

#define TC_ROW_TILES_PRODUCTS 32 /* at most */

typedef struct {
    int32_t in_c, out_c, rows, row_n, row_products, m, n, products, x_zero;
    int32_t together, third, lowers;
    tc_finish_t finish;
    const int8_t *row_inputs; /* [row_products][row_n] */
    const int8_t *row_sums;   /* [rows][row_products] */
    const int8_t *inputs;     /* [products][n] */
    const int8_t *sums;       /* [m][products] */
    const uint8_t *order;     /* [row_products * products] */
    const uint8_t *raised;    /* [m] */
    const uint8_t *walk;      /* [row_products * products + rows * m] */
} tc_row_tiles_t;

/* One tile; factors points to its first word. outside: bit i is set where column i of the tile counts as
 * x_zero. */
static inline void tc_row_tiles_factors(const tc_row_tiles_t *p, uint32_t outside, const int8_t *const *x,
                                        int32_t offset, int32_t *factors)
{
    for (int32_t product = 0; product < p->row_products * p->products; product++) {
        const int8_t *down = p->row_inputs + p->order[product] / p->products * p->row_n;
        const int8_t *across = p->inputs + p->order[product] % p->products * p->n;
        for (int32_t i = 0; i < p->in_c / 2; i++, factors += p->together) {
            const int32_t channel = i / 2 * 4 + i % 2;
            int32_t low = 0, high = 0;
            for (int32_t row = 0; row < p->row_n; row++) {
                for (int32_t column = 0; column < p->n; column++) {
                    const int32_t f = down[row] * across[column], at = offset + column * p->in_c + channel;
                    const int inside = (outside >> column & 1u) == 0;
                    low += f * (inside ? x[row][at] : p->x_zero);
                    high += f * (inside ? x[row][at + 2] : p->x_zero);
                }
            }
            *factors = tc_halves(high, low);
        }
    }
}

static inline int8_t tc_row_tiles_finish(const tc_row_tiles_t *p, int32_t x, int32_t raised,
                                         int32_t channel, const int32_t *constants)
{
    const int32_t third = p->third ? tc_wrap((int64_t)x * -1431655765) : x; /* 1/3 modulo 2^32 */
    return p->lowers ? tc_finish(&p->finish, third >> raised, channel, 0, constants)
                     : tc_finish(&p->finish, third, channel, raised, constants);
}

/* y, and of two rows y1: [together * m][out_c]. */
static inline void tc_row_tiles_products(const tc_row_tiles_t *p, const int32_t *stream,
                                         const int32_t *factors, int8_t *y, int8_t *y1)
{
    const int32_t steps = p->in_c / 2, constants = tc_finish_words(&p->finish, 0);
    const int32_t tiles = p->together, channels = 4 / tiles, count = p->row_products * p->products;
    for (int32_t group = 0; group < p->out_c; group += channels) {
        const int32_t *x = factors;
        int32_t made[TC_ROW_TILES_PRODUCTS][4]; /* [product][tile][channel] */
        for (int32_t i = 0; i < count * 4; i++) {
            made[i / 4][i % 4] = i / 4 == p->order[0] ? stream[i % channels] : 0;
        }
        stream += channels;
        for (int32_t i = 0; i < count + p->rows * p->m; i++) {
            if (p->walk[i] < 128) {
                int32_t *acc = made[p->walk[i]];
                for (int32_t step = 0; step < steps; step++, stream += channels, x += tiles) {
                    for (int32_t j = 0; j < 4; j++) {
                        acc[j] = tc_smlad(x[j / channels], stream[j % channels], acc[j]);
                    }
                }
                continue;
            }
            const int32_t row = (p->walk[i] - 128) / p->m, number = (p->walk[i] - 128) % p->m;
            for (int32_t j = 0; j < 4; j++) {
                int8_t *to = (row > 0 ? y1 : y) + (j / channels * p->m + number) * p->out_c + group +
                    j % channels;
                int64_t sum = 0;
                for (int32_t product = 0; product < count; product++) {
                    const int32_t f = p->row_sums[row * p->row_products + product / p->products] *
                                      p->sums[number * p->products + product % p->products];
                    sum += (int64_t)f * made[product][j];
                }
                *to = tc_row_tiles_finish(p, tc_wrap(sum), p->raised[number], j % channels,
                                          stream + j % channels * constants);
            }
            stream += channels * constants;
        }
    }
}

#endif
#endif
