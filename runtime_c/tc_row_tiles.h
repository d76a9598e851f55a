/* One row of a 3x3 convolution by an exact fast form along the row, int8: in plain C what the functions compute that the
 * compiler writes for single layers in assembly.
 *
 * A form makes m outputs of n neighbouring columns with P products, each of a sum of columns (inputs [P][n]) and a sum of
 * weights; the three kernel rows and all channels are summed in the product. Output a is the sum of sums[a][p] * product p,
 * times 2^raised[a] and maybe 3 what it should be. One tile is made at a time, or two neighbours (`together`).
 *
 * factors: [place of the product][kernel row][step][tile], a step being two int16 of a word: channels 0, 2 or 1, 3 of
 * each four.
 * stream, for each four output channels (two tiles together: each two): their start values, then by `walk`
 *   p < 16    the weights of product p: for each word of its factors a word of each channel
 *   16 + a    mult, add[, shift or drop] of each channel, of output a; then the output is complete
 * The start values belong to the product `shared`.
 *
 * The sum X of an output, its 3 divided out, becomes saturate8((high word of X * mult + add) >> (shift + raised)); with
 * `sign`, the high word is rounded and 1 is subtracted for X < 0; with `drops` too, it is not rounded and the channel's
 * drop is subtracted. `lowers`: X is shifted down by `raised` first instead.
 */
#ifndef TC_ROW_TILES_H
#define TC_ROW_TILES_H

#include "tc_dsp.h"

#if !TC_DSP_ASM

#define TC_ROW_TILES_PRODUCTS 8 /* at most */

typedef struct {
    int32_t in_c, out_c, m, n, products, x_zero;
    int32_t shared, together, third, lowers;
    int32_t sign, drops, varies, shift;
    int32_t y_min, y_max;
    const int8_t *inputs; /* [products][n] */
    const int8_t *sums;   /* [m][products] */
    const uint8_t *place; /* [products] */
    const uint8_t *raised; /* [m] */
    const uint8_t *walk;  /* [products + m] */
} tc_row_tiles_t;

/* One tile; factors points to its first word. outside: bit i is set where column i of the tile counts as x_zero. */
static inline void tc_row_tiles_factors(const tc_row_tiles_t *p, uint32_t outside, const int8_t *const *x, int32_t offset,
                                        int32_t *factors)
{
    const int32_t words = p->in_c / 2;
    for (int32_t product = 0; product < p->products; product++) {
        for (int32_t row = 0; row < 3; row++) {
            int32_t *to = factors + (p->place[product] * 3 + row) * words * p->together;
            for (int32_t i = 0; i < words; i++) {
                const int32_t channel = i / 2 * 4 + i % 2;
                int32_t low = 0, high = 0;
                for (int32_t column = 0; column < p->n; column++) {
                    const int32_t f = p->inputs[product * p->n + column];
                    const int inside = (outside >> column & 1u) == 0;
                    const int32_t at = offset + column * p->in_c + channel;
                    low += f * (inside ? x[row][at] : p->x_zero);
                    high += f * (inside ? x[row][at + 2] : p->x_zero);
                }
                to[i * p->together] = tc_halves(high, low);
            }
        }
    }
}

static inline int8_t tc_row_tiles_finish(const tc_row_tiles_t *p, int32_t x, int32_t raised, const int32_t *constants)
{
    const int32_t third = p->third ? tc_wrap((int64_t)x * -1431655765) : x; /* 1/3 modulo 2^32 */
    const int32_t acc = p->lowers ? third >> raised : third;
    const int32_t fall = p->drops && acc < 0 ? constants[2] : 0;
    const int32_t t = p->sign && !p->drops ? tc_smmlar(acc, constants[0], constants[1]) - (acc < 0)
                                           : tc_smmla(acc, constants[0], tc_wrap((int64_t)constants[1] - fall));
    const int32_t shift = (p->varies ? constants[2] : p->shift) + (p->lowers ? 0 : raised);
    return (int8_t)tc_clamp(tc_ssat8(t >> shift), p->y_min, p->y_max);
}

/* y [together * m][out_c]. */
static inline void tc_row_tiles_products(const tc_row_tiles_t *p, const int32_t *stream, const int32_t *factors, int8_t *y)
{
    const int32_t steps = 3 * p->in_c / 2, constants = p->varies || p->drops ? 3 : 2;
    const int32_t tiles = p->together, channels = 4 / tiles;
    for (int32_t group = 0; group < p->out_c; group += channels) {
        int32_t made[TC_ROW_TILES_PRODUCTS][4]; /* [product][tile][channel] */
        for (int32_t i = 0; i < p->products * 4; i++) {
            made[i / 4][i % 4] = i / 4 == p->shared ? stream[i % channels] : 0;
        }
        stream += channels;
        for (int32_t i = 0; i < p->products + p->m; i++) {
            const int32_t number = p->walk[i] % 16;
            if (p->walk[i] < 16) {
                const int32_t *x = factors + p->place[number] * steps * tiles;
                for (int32_t step = 0; step < steps; step++, stream += channels) {
                    for (int32_t j = 0; j < 4; j++) {
                        made[number][j] =
                            tc_smlad(x[step * tiles + j / channels], stream[j % channels], made[number][j]);
                    }
                }
                continue;
            }
            for (int32_t j = 0; j < 4; j++) {
                int8_t *to = y + (j / channels * p->m + number) * p->out_c + group + j % channels;
                int64_t sum = 0;
                for (int32_t product = 0; product < p->products; product++) {
                    sum += (int64_t)p->sums[number * p->products + product] * made[product][j];
                }
                *to = tc_row_tiles_finish(p, tc_wrap(sum), p->raised[number], stream + j % channels * constants);
            }
            stream += channels * constants;
        }
    }
}

#endif
#endif
