/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop.h with Helium (tc_recurrent_mve.h). Same results; scratch as there. */
#ifndef TC_GRU_LOOP_MVE_H
#define TC_GRU_LOOP_MVE_H

#include "tc_recurrent_mve.h"

static void tc_gru_loop_mve(const tc_recurrent_mve_t *layer, const void *x, const void *hidden_before,
                            void *y, int16_t *hidden_after, void *scratch)
{
    tc_gru_loop_mve_by(layer, x, hidden_before, y, hidden_after, scratch, tc_recurrent_mve_sums);
}

#endif
