/* SPDX-License-Identifier: 0BSD */
/* Copies bytes, words at a time where the core allows it.
 *
 * `to` may not overlap `from`, but may lie before it.
 */
#ifndef TC_COPY_H
#define TC_COPY_H

#include "tc_math.h"

/* Whether functions in assembly may take words at any address. */
#if TC_GNU && defined(__thumb2__) && defined(__ARM_FEATURE_UNALIGNED) && !defined(__ARM_BIG_ENDIAN)
#define TC_COPY_ASM 1
#else
#define TC_COPY_ASM 0
#endif

typedef void tc_copy_t(void *to, const void *from, int32_t bytes); /* as tc_copy, for one kind of core */

#if TC_GNU && !defined(__clang__) /* gcc 12 warns of overflow that cannot be, in the last bytes */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
static inline void tc_copy(void *to, const void *from, int32_t bytes)
{
    uint8_t *out = (uint8_t *)to;
    const uint8_t *in = (const uint8_t *)from;
    int32_t i = 0;

#if TC_GNU && defined(__ARM_FEATURE_UNALIGNED)
    for (; i + 8 <= bytes; i += 8) {
        const uint32_t first = tc_load_word(in + i), second = tc_load_word(in + i + 4);
        tc_store_word(out + i, first);
        tc_store_word(out + i + 4, second);
    }
    if ((bytes & 4) != 0) {
        tc_store_word(out + i, tc_load_word(in + i));
        i += 4;
    }
    if ((bytes & 2) != 0) {
        out[i] = in[i];
        out[i + 1] = in[i + 1];
        i += 2;
    }
    if ((bytes & 1) != 0) {
        out[i] = in[i];
    }
#elif TC_GNU
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        for (; i + 4 <= bytes; i += 4) {
            *(tc_word_t *)(void *)(out + i) = *(const tc_word_t *)(const void *)(in + i);
        }
    }
#endif
#if !(TC_GNU && defined(__ARM_FEATURE_UNALIGNED))
    for (; i < bytes; i++) {
        out[i] = in[i];
    }
#endif
}
#if TC_GNU && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
