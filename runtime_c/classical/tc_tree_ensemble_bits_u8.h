/* SPDX-License-Identifier: 0BSD */
/* Trees over features as they lie, with cuts of 8 bits, as a table of nodes: each tree is walked to its leaf,
 * the leaves are added (tc_trees.h). A feature, its bits if it is a float, is compared with
 * base + (cut << shift).
 *
 * nodes: ref in bits 0 to 15, feature in bits 16 to 23, cut in bits 24 to 31.
 * starts [trees]: the first node of each tree. x may not overlap y. scratch: n words.
 */
#ifndef TC_TREE_ENSEMBLE_BITS_U8_H
#define TC_TREE_ENSEMBLE_BITS_U8_H

#include "tc_trees.h"

typedef struct {
    tc_feature_codes_t codes;
    tc_tree_sums_t sums;
    int32_t trees, base, shift;
    const uint16_t *starts;
    const uint32_t *nodes;
} tc_tree_ensemble_bits_u8_t;

static inline int32_t tc_tree_leaf_bits_u8(const tc_tree_ensemble_bits_u8_t *p, const uint32_t *at,
                                           const tc_feature_bits_t *codes)
{
    for (;;) {
        const uint32_t node = *at++;
        if (codes[(node >> 16) & 255u] > p->base + (int32_t)((node >> 24) << p->shift)) {
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

static void tc_tree_ensemble_bits_u8(const tc_tree_ensemble_bits_u8_t *p, const void *x, int32_t *y,
                                     void *scratch)
{
    int32_t *sums = tc_tree_begin(&p->sums, y);
    const tc_feature_bits_t *codes = tc_feature_bits(&p->codes, x, scratch);

    for (int32_t i = 0; i < p->trees; i++) {
        const uint32_t *tree = p->nodes + p->starts[i];
        tc_tree_add(&p->sums, tc_tree_leaf_bits_u8(p, tree, codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
