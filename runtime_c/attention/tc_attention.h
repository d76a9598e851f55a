/* SPDX-License-Identifier: 0BSD */
/* Attention over int8, row by row: what its kernels share.
 *
 *   score[h][t][s]   = product of query t and key s of head h: sums of (q - q_zero) * (k - k_zero) over
 *       depth, scaled to int8;
 *                      then table[score] where there is one;
 *                      then `hidden` where mask[h][t][s] is 0 (it is -1 elsewhere)
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
    const int8_t *mask;  /* heads and rows mask_head and mask_row apart, 0 where all have the same; or null */
    int32_t mask_head, mask_row, hidden;
    int32_t heads, rows, keys, depth, width;
    int32_t q_first, q_head, q_row, q_next;
    int32_t k_first, k_head, k_row, k_next;
    int32_t v_first, v_head, v_row, v_next;
    int32_t y_first, y_head, y_row, y_next;
    int32_t q_zero, k_zero, share_zero, v_zero;
} tc_attention_t;

/* Scores that are not shown become `hidden`. */
static inline void tc_attention_hide(const int8_t *shown, int32_t hidden, int32_t n, int8_t *scores)
{
    const uint32_t all = (uint32_t)(uint8_t)hidden * 0x01010101u;
    int32_t s = 0;

    for (; s + 4 <= n; s += 4) {
        const uint32_t kept = tc_load_word(shown + s);
        tc_store_word(scores + s, (tc_load_word(scores + s) & kept) | (all & ~kept));
    }
    for (; s < n; s++) {
        scores[s] = (int8_t)((scores[s] & shown[s]) | (hidden & ~shown[s]));
    }
}

static inline void tc_attention_table(const int8_t *table, int32_t n, int8_t *scores)
{
    int32_t s = 0;

    for (; s + 4 <= n; s += 4) {
        const int8_t y0 = table[(uint8_t)scores[s]], y1 = table[(uint8_t)scores[s + 1]];
        const int8_t y2 = table[(uint8_t)scores[s + 2]], y3 = table[(uint8_t)scores[s + 3]];
        scores[s] = y0;
        scores[s + 1] = y1;
        scores[s + 2] = y2;
        scores[s + 3] = y3;
    }
    for (; s < n; s++) {
        scores[s] = table[(uint8_t)scores[s]];
    }
}

/* Scores of row t of head h to what the softmax takes. */
static inline void tc_attention_look_up(const tc_attention_t *p, int32_t h, int32_t t, int8_t *scores)
{
    if (p->table) {
        tc_attention_table(p->table, p->keys, scores);
    }
    if (p->mask) {
        tc_attention_hide(p->mask + h * p->mask_head + t * p->mask_row, p->hidden, p->keys, scores);
    }
}

#endif
