/* SPDX-License-Identifier: 0BSD */
/* Fully connected without DSP instructions, two products in one multiplication: tc_scalar_pairs.h. */
#ifndef TC_FULLY_CONNECTED_S8_PAIRS_H
#define TC_FULLY_CONNECTED_S8_PAIRS_H

#include "tc_scalar_pairs.h"

static TC_UNUSED void tc_fully_connected_s8_pairs(const tc_scalar_pairs_t *p, const int8_t *x, int8_t *y,
                                                  void *scratch, int32_t zero)
{
    tc_scalar_pairs_run(p, x, y, scratch, zero);
}

#endif
