/* SPDX-License-Identifier: 0BSD */
/* The sums of the leaves that trees end at: what the kernels of tree_ensemble share.
 *
 *   sums[c] = base[c] + sum over the trees of leaves[row of the tree][c]
 *
 * leaves [rows][columns] of int8, int16 or int32 (leaf_bytes). Of leaves that are mostly 0 `entries`
 * holds what is not: those of a row begin at entries[row_starts[row]], each a number << column_bits with
 * its column in the low bits. With a `vote` there is no table: a row is the column that the vote goes
 * to. few_leaves: rows are numbers of 7 bits. With `complements` there is one column, and y is {
 * complement - sum, sum }; else y [columns] are the sums. The compiler has proved that no sum leaves
 * int32.
 */
#ifndef TC_TREES_H
#define TC_TREES_H

#include "tc_feature_codes.h"

/* Between trees that are branches of one function: the compiler forgets the sum so far, and what the
 * comparisons before have told of the features. It would copy trees for what they say of each other, into
 * half as much code again, and work out ahead, at each leaf, what the leaves of all later trees would add,
 * into five times as much. */
#if TC_GNU
#define TC_FORGET(sum) __asm__ volatile("" : "+r"(sum) : : "memory")
#else
#define TC_FORGET(sum) ((void)0)
#endif

typedef struct {
    int32_t columns, vote, few_leaves, leaf_bytes, column_bits, complements, complement;
    const void *leaves;
    const uint16_t *row_starts;
    const int32_t *entries;
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

static inline void tc_tree_add_entries(const tc_tree_sums_t *p, int32_t row, int32_t column_bits,
                                       int32_t *sums)
{
    const int32_t *entry = p->entries + p->row_starts[row], *end = p->entries + p->row_starts[row + 1];

    for (; entry < end; entry++) {
        sums[*entry & ((1 << column_bits) - 1)] += *entry >> column_bits;
    }
}

static inline void tc_tree_add(const tc_tree_sums_t *p, int32_t row, int32_t *sums)
{
    const int32_t first = row * p->columns;

    if (p->vote) {
        sums[row] += p->vote;
    } else if (p->entries) {
        tc_tree_add_entries(p, row, p->column_bits, sums);
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

/* The last 16 bits of a node of a table, `ref`, say what follows it; `number` are bits 2 to 15.
 *
 * TC_TREE_BELOW: the child of those that do not exceed the cut is a leaf. TC_TREE_ABOVE: the other one
 * is. Both: they are the leaves number and number + 1. One: it is that leaf, and the other child is the
 * next node. Where there are few leaves, that below is in the low 7 bits of `number`, that above in the
 * high ones. None: the next node, and the one `number` nodes behind it. */
#define TC_TREE_BELOW 1u
#define TC_TREE_ABOVE 2u

static inline uint32_t tc_tree_number(uint32_t ref)
{
    return (ref & 0xffffu) >> 2;
}

static inline int32_t tc_tree_leaf_below(const tc_tree_sums_t *p, uint32_t ref)
{
    return (int32_t)(p->few_leaves ? tc_tree_number(ref) & 127u : tc_tree_number(ref));
}

static inline int32_t tc_tree_leaf_above(const tc_tree_sums_t *p, uint32_t ref)
{
    return (int32_t)(p->few_leaves ? tc_tree_number(ref) >> 7 : tc_tree_number(ref) + (ref & TC_TREE_BELOW));
}

#endif
