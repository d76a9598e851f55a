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

static inline int32_t tc_tree_leaf_s16(const tc_tree_ensemble_s16_t *p, const uint16_t *at,
                                       const int16_t *codes)
{
    for (;;) {
        const uint32_t ref = at[2];
        const int exceeds = codes[at[0]] > (int16_t)at[1];

        at += 3;
        if (exceeds) {
            if (!(ref & (TC_TREE_BELOW | TC_TREE_ABOVE))) {
                at += 3 * tc_tree_number(ref);
            } else if (ref & TC_TREE_ABOVE) {
                return tc_tree_leaf_above(&p->sums, ref);
            }
        } else if (ref & TC_TREE_BELOW) {
            return tc_tree_leaf_below(&p->sums, ref);
        }
    }
}

static void tc_tree_ensemble_s16(const tc_tree_ensemble_s16_t *p, const void *x, int32_t *y, void *scratch)
{
    int32_t *sums = tc_tree_begin(&p->sums, y);
    int16_t *codes = (int16_t *)scratch;

    tc_feature_codes_s16(&p->codes, x, codes);
    for (int32_t i = 0; i < p->trees; i++) {
        const uint16_t *tree = p->nodes + 3 * p->starts[i];
        tc_tree_add(&p->sums, tc_tree_leaf_s16(p, tree, codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
