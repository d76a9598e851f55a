/* SPDX-License-Identifier: 0BSD */
/* Trees over int16 codes (tc_feature_codes.h) as a table of nodes: each tree is walked to its leaf, the
 * leaves are added (tc_trees.h).
 *
 * nodes: code, cut (int16), ref.
 * starts [trees]: the first node of each tree. x may not overlap y. scratch: the codes.
 */
#ifndef TC_TREE_ENSEMBLE_S16_H
#define TC_TREE_ENSEMBLE_S16_H

#include "tc_trees.h"

typedef struct {
    tc_feature_codes_t codes;
    tc_tree_sums_t sums;
    int32_t trees;
    const uint16_t *starts;
    const uint16_t *nodes;
} tc_tree_ensemble_s16_t;

static inline int32_t tc_tree_leaf_s16(const tc_tree_sums_t *p, const uint16_t *at, const int16_t *codes)
{
    for (;; at += 3) {
        while (at[2] < 1u << 14) {
            at += codes[at[0]] > (int16_t)at[1] ? 3 * at[2] : 3;
        }
        const int32_t leaf = tc_tree_leaf(p, at[2], codes[at[0]] > (int16_t)at[1]);
        if (leaf >= 0) {
            return leaf;
        }
    }
}

static void tc_tree_ensemble_s16(const tc_tree_ensemble_s16_t *p, const void *x, int32_t *y, void *scratch)
{
    int16_t *codes = (int16_t *)scratch;
    int32_t *sums = tc_tree_begin(&p->sums, y);

    tc_feature_codes_s16(&p->codes, x, codes);
    for (int32_t i = 0; i < p->trees; i++) {
        tc_tree_add(&p->sums, tc_tree_leaf_s16(&p->sums, p->nodes + 3 * p->starts[i], codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
