/* SPDX-License-Identifier: 0BSD */
/* Attention over int8, row by row: what its kernels share.
 *
 *   score[h][t][s]   = product of query t and key s of head h: sums of (q - q_zero) * (k - k_zero) over
 *       depth, scaled to int8;
 *                      then table[score] where there is one
 *   share[h][t][..]  = softmax of the scores of a row, int8
 *   y[h][t][i]       = sums of (share - share_zero) * (v - v_zero) over the keys, scaled to int8
 *
 * Element i of row t of head h lies at first + h * head + t * row + i * next of its tensor, for y with next =
 * 1. y may overlap no input.
 */
#ifndef TC_ATTENTION_H
#define TC_ATTENTION_H

#include "tc_math.h"

typedef struct {
    const int8_t *table; /* [256], or null */
    int32_t heads, rows, keys, depth, width;
    int32_t q_first, q_head, q_row, q_next;
    int32_t k_first, k_head, k_row, k_next;
    int32_t v_first, v_head, v_row, v_next;
    int32_t y_first, y_head, y_row, y_next;
    int32_t q_zero, k_zero, share_zero, v_zero;
} tc_attention_t;

static inline void tc_attention_look_up(const tc_attention_t *p, int8_t *scores)
{
    for (int32_t s = 0; p->table && s < p->keys; s++) {
        scores[s] = p->table[(uint8_t)scores[s]];
    }
}

#endif
