/* SPDX-License-Identifier: 0BSD */
/* Trees over uint8 codes (tc_feature_codes.h) as a table of nodes: each tree is walked to its leaf, the
 * leaves are added (tc_trees.h).
 *
 * nodes: code in bits 0 to 7, cut in bits 8 to 15, ref in bits 16 to 31.
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

static inline int32_t tc_tree_leaf_u8(const tc_tree_sums_t *p, const uint32_t *at, const uint8_t *codes)
{
    for (;;) {
        uint32_t node = *at;
        while (node < 1u << 30) {
            at += codes[node & 255] > ((node >> 8) & 255) ? node >> 16 : 1;
            node = *at;
        }
        const int32_t leaf = tc_tree_leaf(p, node >> 16, codes[node & 255] > ((node >> 8) & 255));
        if (leaf >= 0) {
            return leaf;
        }
        at++;
    }
}

static void tc_tree_ensemble_u8(const tc_tree_ensemble_u8_t *p, const void *x, int32_t *y, void *scratch)
{
    uint8_t *codes = (uint8_t *)scratch;
    int32_t *sums = tc_tree_begin(&p->sums, y);

    tc_feature_codes_u8(&p->codes, x, codes);
    for (int32_t i = 0; i < p->trees; i++) {
        tc_tree_add(&p->sums, tc_tree_leaf_u8(&p->sums, p->nodes + p->starts[i], codes), sums);
    }
    tc_tree_end(&p->sums, y);
}

#endif
