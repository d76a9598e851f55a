/* SPDX-License-Identifier: 0BSD */
/* What follows is a library, whatever flags the compiler was given; tc_end.h ends it. Without an include
 * guard: one translation unit may hold several libraries.
 *
 * No loop becomes a call of memset, memcpy or memmove: the library links with nothing.
 *
 * No call of a function is dropped or moved for what the compiler believes of its effects. gcc 12 takes a
 * loop whose address it has rewritten to `0 + offset` for an access to a null pointer, the code behind it for
 * unreachable, and the function for one without effect: it drops a whole layer at -O2 and -Os. Each half of
 * the options for it helps alone: the access to a null pointer means nothing; nobody looks for functions
 * without effect.
 *
 * For Thumb-1 no caller counts on registers that a function leaves as they were. gcc 12 knows better than to
 * do so, since it gives frames back by popping r0 to r3, but forgets that where a file sets options.
 */
#if defined(TC_PORTABLE)
#elif defined(__clang__)
#if __has_attribute(no_builtin)
#pragma clang attribute push(__attribute__((no_builtin)), apply_to = function)
#endif
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-loop-distribute-patterns", "no-delete-null-pointer-checks", "no-ipa-pure-const")
#if __GNUC__ >= 11
#pragma GCC optimize("no-ipa-modref")
#endif
#if defined(__thumb__) && !defined(__thumb2__)
#pragma GCC optimize("no-ipa-ra")
#endif
#endif

#include "tc_compiler.h"
