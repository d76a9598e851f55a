/* Copies bytes, words at a time where the core allows it.
 *
 * `to` may not overlap `from`, but may lie before it.
 */
#ifndef TC_COPY_H
#define TC_COPY_H

#include "tc_math.h"

static inline void tc_copy(void *to, const void *from, int32_t bytes)
{
    uint8_t *out = (uint8_t *)to;
    const uint8_t *in = (const uint8_t *)from;
    int32_t i = 0;

#if defined(__ARM_FEATURE_UNALIGNED)
    for (; i + 8 <= bytes; i += 8) {
        uint32_t first, second;
        __builtin_memcpy(&first, in + i, 4);
        __builtin_memcpy(&second, in + i + 4, 4);
        __builtin_memcpy(out + i, &first, 4);
        __builtin_memcpy(out + i + 4, &second, 4);
    }
    if (i + 4 <= bytes) {
        uint32_t word;
        __builtin_memcpy(&word, in + i, 4);
        __builtin_memcpy(out + i, &word, 4);
        i += 4;
    }
#elif defined(__GNUC__)
    typedef uint32_t __attribute__((may_alias)) word_t;
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        for (; i + 4 <= bytes; i += 4) {
            *(word_t *)(void *)(out + i) = *(const word_t *)(const void *)(in + i);
        }
    }
#endif
    for (; i < bytes; i++) {
        out[i] = in[i];
    }
}

#endif
