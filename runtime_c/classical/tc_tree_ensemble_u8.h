/* SPDX-License-Identifier: 0BSD */
/* Trees over uint8 codes (tc_feature_codes.h) as a table of nodes: each tree is walked to its leaf, the
 * leaves are added (tc_trees.h).
 *
 * nodes: ref in bits 0 to 15, code in bits 16 to 23, cut in bits 24 to 31.
 * starts [trees]: the first node of each tree. x may not overlap y. scratch: the codes.
 */
#ifndef TC_TREE_ENSEMBLE_U8_H
#define TC_TREE_ENSEMBLE_U8_H

#include "tc_trees.h"

typedef struct {
    tc_feature_codes_t codes;
    tc_tree_sums_t sums;
    int32_t trees;
    const uint16_t *starts;
    const uint32_t *nodes;
} tc_tree_ensemble_u8_t;

static inline int32_t tc_tree_leaf_u8(const tc_tree_ensemble_u8_t *p, const uint32_t *at,
                                      const uint8_t *codes)
{
    for (;;) {
        const uint32_t node = *at++;
        if (codes[(node >> 16) & 255u] > node >> 24) {
            if (!(node & (TC_TREE_BELOW | TC_TREE_ABOVE))) {
                at += tc_tree_number(node);
            } else if (node & TC_TREE_ABOVE) {
                return tc_tree_leaf_above(&p->sums, node);
            }
        } else if (node & TC_TREE_BELOW) {
            return tc_tree_leaf_below(&p->sums, node);
        }
    }
}

static void tc_tree_ensemble_u8(const tc_tree_ensemble_u8_t *p, const void *x, int32_t *y, void *scratch)
{
    int32_t *sums = tc_tree_begin(&p->sums, y);
    uint8_t *codes = (uint8_t *)scratch;

    tc_feature_codes_u8(&p->codes, x, codes);
    for (int32_t i = 0; i < p->trees; i++) {
        const uint32_t *tree = p->nodes + p->starts[i];
        tc_tree_add(&p->sums, tc_tree_leaf_u8(p, tree, codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
