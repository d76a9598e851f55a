/* SPDX-License-Identifier: 0BSD */
/* The sums of the leaves that trees end at: what the kernels of tree_ensemble share.
 *
 *   sums[c] = base[c] + sum over the trees of leaves[row of the tree][c]
 *
 * leaves [rows][columns] of int8, int16 or int32 (leaf_bytes). With a `vote` there is no table: a row is the
 * column that the vote goes to. few_leaves: rows are numbers of 7 bits. With `complements` there is one
 * column, and y is
 * { complement - sum, sum }; else y [columns] are the sums. The compiler has proved that no sum leaves int32.
 */
#ifndef TC_TREES_H
#define TC_TREES_H

#include "tc_feature_codes.h"

typedef struct {
    int32_t columns, vote, few_leaves, leaf_bytes, complements, complement;
    const void *leaves;
    const int32_t *base;
} tc_tree_sums_t;

/* What a function of branches, written for its forest, knows besides. */
typedef struct {
    tc_feature_codes_t codes;
    tc_tree_sums_t sums;
} tc_tree_branches_t;

/* The sums in y, which begin with the base. */
static inline int32_t *tc_tree_begin(const tc_tree_sums_t *p, int32_t *y)
{
    int32_t *sums = y + p->complements;

    for (int32_t c = 0; c < p->columns; c++) {
        sums[c] = p->base[c];
    }
    return sums;
}

static inline void tc_tree_add(const tc_tree_sums_t *p, int32_t row, int32_t *sums)
{
    const int32_t first = row * p->columns;

    if (p->vote) {
        sums[row] += p->vote;
    } else if (p->leaf_bytes == 1) {
        const int8_t *leaf = (const int8_t *)p->leaves + first;
        for (int32_t c = 0; c < p->columns; c++) {
            sums[c] += leaf[c];
        }
    } else if (p->leaf_bytes == 2) {
        const int16_t *leaf = (const int16_t *)p->leaves + first;
        for (int32_t c = 0; c < p->columns; c++) {
            sums[c] += leaf[c];
        }
    } else {
        const int32_t *leaf = (const int32_t *)p->leaves + first;
        for (int32_t c = 0; c < p->columns; c++) {
            sums[c] += leaf[c];
        }
    }
}

static inline void tc_tree_end(const tc_tree_sums_t *p, int32_t *y)
{
    if (p->complements) {
        y[0] = p->complement - y[1];
    }
}

/* A node of a table, `ref` being its last 16 bits. Bit 14: the child of those that do not exceed the cut is a
 * leaf; bit
 * 15: the other one is. Both: they are the leaves ref and ref + 1, or of few leaves the low and the high 7
 * bits. One: it is leaf ref, and the other child is the next node. None: the next node, and the one ref nodes
 * further on.
 *
 * The leaf of a node that has any, or -1: the walk goes on at the next node. */
static inline int32_t tc_tree_leaf(const tc_tree_sums_t *p, uint32_t ref, uint32_t exceeds)
{
    const uint32_t kind = ref >> 14, number = ref & 0x3fffu;

    if (kind < 3) {
        return kind - 1 == exceeds ? (int32_t)number : -1;
    }
    if (p->few_leaves) {
        return (int32_t)(exceeds ? number >> 7 : number & 127);
    }
    return (int32_t)(number + exceeds);
}

#endif
