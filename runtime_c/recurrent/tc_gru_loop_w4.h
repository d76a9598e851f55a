/* SPDX-License-Identifier: 0BSD */
/* tc_gru_loop.h with weights of 4 bits (tc_recurrent_w4.h). */
#ifndef TC_GRU_LOOP_W4_H
#define TC_GRU_LOOP_W4_H

#include "tc_recurrent_w4.h"

static void tc_gru_loop_w4(const tc_recurrent_s8_t *layer, const void *x, const void *hidden_before, void *y,
                           int16_t *hidden_after, void *scratch)
{
    tc_gru_loop_by(layer, x, hidden_before, y, hidden_after, scratch, 2, tc_recurrent_w4_sums);
}

#endif
