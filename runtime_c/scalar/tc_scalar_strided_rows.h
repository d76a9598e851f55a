/* SPDX-License-Identifier: 0BSD */
/* Two or four rows of a 3x3 convolution of stride 2 by the exact fast form of tc_scalar_strided.h, from row
 * pointers.
 *
 * x: 2 * out_h + 1 rows s8 [in_w][in_c], y: out_h rows [out_w][out_c], out_h 2 or 4; of rows with one pointer
 * the last is left there (four rows: where out_w is more than 4). p: of the layer, with that out_h; in_h and
 * pad_top count for nothing. Tiles go along the rows, then down. Scratch: as there.
 */
#ifndef TC_SCALAR_STRIDED_ROWS_H
#define TC_SCALAR_STRIDED_ROWS_H

#include "tc_scalar_strided.h"

static TC_UNUSED void tc_scalar_strided_rows_run(const tc_scalar_strided_t *p, const int8_t *const *x,
                                                 int8_t *const *y, void *scratch)
{
    const int32_t tiles = (p->out_h >> 1) * ((p->out_w + 1) >> 1), out_c = p->out.out_c;
    const int32_t products = 25 * p->segments, channels = p->channels;
    int32_t *const factors = (int32_t *)scratch, *const sums = factors + 2 * products * channels;

    for (int32_t tile = 0, ox = 0, oy = 0; tile < tiles; tile += 3) {
        const int8_t *const *rows[3];
        int32_t left[3];
        int8_t *to[12];
        for (int32_t k = 0; k < 3; k++) {
            const int inside = oy < p->out_h;
            rows[k] = x + (inside ? 2 * oy : 0);
            left[k] = inside ? 2 * ox - p->pad_left : p->in_w;
            for (int32_t i = 0; i < 4; i++) {
                const int32_t at_x = ox + (i & 1);
                to[3 * i + k] = inside && at_x < p->out_w ? y[oy + (i >> 1)] + at_x * out_c : 0;
            }
            ox += 2;
            if (ox >= p->out_w) {
                ox = 0;
                oy += 2;
            }
        }
        for (int32_t place = 0; place < 25; place++) {
            const int8_t *from[3];
            for (int32_t k = 0; k < 3; k++) {
                const int32_t ix = left[k] + place % 5;
                from[k] = ix >= 0 && ix < p->in_w ? rows[k][place / 5] + ix * p->in_c : p->pad;
            }
            tc_scalar_strided_place(p, from, place, factors);
        }
        for (int32_t segment = 0; segment < p->segments; segment++) {
            tc_scalar_strided_factors(factors + segment * 50 * channels, 2 * channels);
        }
        for (int32_t o = 0; o < out_c; o += TC_SCALAR_TILE_LANES) {
            const int32_t lanes = out_c - o < TC_SCALAR_TILE_LANES ? out_c - o : TC_SCALAR_TILE_LANES;
            tc_scalar_products(factors, p->w + (o >> 2) * (4 * products * channels) + (o & 3), 8 * channels,
                               sums);
            p->store(&p->out, sums, p->segments, o, lanes, to);
        }
    }
}

#endif
