/* SPDX-License-Identifier: 0BSD */
/* Fully connected, int8, with two products in one multiplication (tc_scalar_pairs.h), inputs and sums on the
 * stack: 600 bytes of it.
 *
 * p, x, y: as there. A row of x is read before its outputs are written if it has at most 128 inputs, or 64
 * outputs.
 */
#ifndef TC_FULLY_CONNECTED_S8_PAIRS_HELD_H
#define TC_FULLY_CONNECTED_S8_PAIRS_HELD_H

#include "tc_scalar_pairs.h"

static TC_UNUSED void tc_fully_connected_s8_pairs_held(const tc_scalar_pairs_t *p, const int8_t *x,
                                                       int8_t *y, int32_t zero)
{
    tc_scalar_pairs_held(p, x, y, zero);
}

#endif
