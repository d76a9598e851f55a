/* SPDX-License-Identifier: 0BSD */
/* Trees over int32 codes (tc_feature_codes.h) as a table of nodes: each tree is walked to its leaf, the
 * leaves are added (tc_trees.h).
 *
 * nodes: cut; ref in bits 0 to 15 and code in bits 16 to 31.
 * starts [trees]: the first node of each tree. x may not overlap y. scratch: the codes.
 */
#ifndef TC_TREE_ENSEMBLE_S32_H
#define TC_TREE_ENSEMBLE_S32_H

#include "tc_trees.h"

typedef struct {
    tc_feature_codes_t codes;
    tc_tree_sums_t sums;
    int32_t trees;
    const uint16_t *starts;
    const int32_t *nodes;
} tc_tree_ensemble_s32_t;

static inline int32_t tc_tree_leaf_s32(const tc_tree_ensemble_s32_t *p, const int32_t *at,
                                       const int32_t *codes)
{
    for (;;) {
        const int32_t cut = at[0];
        const uint32_t node = (uint32_t)at[1];

        at += 2;
        if (codes[node >> 16] > cut) {
            if (!(node & (TC_TREE_BELOW | TC_TREE_ABOVE))) {
                at += 2 * tc_tree_number(node);
            } else if (node & TC_TREE_ABOVE) {
                return tc_tree_leaf_above(&p->sums, node);
            }
        } else if (node & TC_TREE_BELOW) {
            return tc_tree_leaf_below(&p->sums, node);
        }
    }
}

static void tc_tree_ensemble_s32(const tc_tree_ensemble_s32_t *p, const void *x, int32_t *y, void *scratch)
{
    int32_t *sums = tc_tree_begin(&p->sums, y);
    int32_t *codes = (int32_t *)scratch;

    tc_feature_codes_s32(&p->codes, x, codes);
    for (int32_t i = 0; i < p->trees; i++) {
        const int32_t *tree = p->nodes + 2 * p->starts[i];
        tc_tree_add(&p->sums, tc_tree_leaf_s32(p, tree, codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
