/* SPDX-License-Identifier: 0BSD */
/* Gated recurrent units over all steps, the reset gate behind the product (tc_recurrent.h).
 *
 * x [steps][in_c]; hidden_before [units], or null for zeros; y [steps][units], or [units] of the last step
 * with y_step 0; hidden_after [units], or null. y overlaps nothing; the state that is left may lie where the
 * one that was found did. scratch: int32 memory [units], int16 two vectors [taps].
 */
#ifndef TC_GRU_LOOP_H
#define TC_GRU_LOOP_H

#include "tc_recurrent_s8.h"

static void tc_gru_loop(const tc_recurrent_s8_t *layer, const void *x, const void *hidden_before, void *y,
                        int16_t *hidden_after, void *scratch)
{
    tc_gru_loop_by(layer, x, hidden_before, y, hidden_after, scratch, 1, tc_recurrent_s8_sums);
}

#endif
