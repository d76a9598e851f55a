/* SPDX-License-Identifier: 0BSD */
/* tc_recurrent_f32 of a GRU that goes on where the last run ended: the hidden state [units], before and
 * after, which may be the same bytes; null before stands for zeros. scratch: as there.
 */
#ifndef TC_GRU_KEPT_F32_H
#define TC_GRU_KEPT_F32_H

#include "tc_recurrent_f32.h"

static void tc_gru_kept_f32(const tc_recurrent_f32_t *p, const float *x, const float *before, float *y,
                            float *after, void *scratch)
{
    const float *hidden = (const float *)scratch + 2 * p->rows;

    tc_recurrent_f32(p, x, before, (const float *)0, y, scratch);
    for (int32_t u = 0; u < p->units; u++) {
        after[u] = hidden[u];
    }
}

#endif
