/* SPDX-License-Identifier: 0BSD */
/* The elements of two tensors, pair by pair: what operators of two inputs share, either of which may repeat.
 *
 * Loops n0..n3 run over y front to back, n3 innermost; a step of loop k moves a<k> elements in x0 and b<k> in
 * x1, 0 where that input repeats.
 */
#ifndef TC_PAIRS_H
#define TC_PAIRS_H

#include "tc_math.h"

#define TC_PAIR_LOOPS    \
    int32_t n0, a0, b0;  \
    int32_t n1, a1, b1;  \
    int32_t n2, a2, b2;  \
    int32_t n3, a3, b3

/* Their values in another struct. */
#define TC_PAIR_LOOPS_OF(p)    \
    p->n0, p->a0, p->b0,       \
    p->n1, p->a1, p->b1,       \
    p->n2, p->a2, p->b2,       \
    p->n3, p->a3, p->b3

/* The statement for each pair, in which x0's element is `a` and x1's is `b`. */
#define TC_EACH_PAIR(p, type, x0, x1, statement)                                            \
    for (int32_t i0 = 0; i0 < p->n0; i0++) {                                                \
        for (int32_t i1 = 0; i1 < p->n1; i1++) {                                            \
            for (int32_t i2 = 0; i2 < p->n2; i2++) {                                        \
                const type *at0 = x0 + i0 * p->a0 + i1 * p->a1 + i2 * p->a2;                \
                const type *at1 = x1 + i0 * p->b0 + i1 * p->b1 + i2 * p->b2;                \
                for (int32_t i3 = 0; i3 < p->n3; i3++, at0 += p->a3, at1 += p->b3) {        \
                    const type a = *at0, b = *at1;                                          \
                    statement;                                                              \
                }                                                                           \
            }                                                                               \
        }                                                                                   \
    }

#endif
