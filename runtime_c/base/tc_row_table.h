/* SPDX-License-Identifier: 0BSD */
/* Rows of a streamed tensor: each has its own place in the arena, which a table tells in units of `unit`
 * bytes.
 *
 * rows: count pointers out. Row k is the tensor's row first + k * dilation where that lies in [0, in_h), else
 * pad.
 */
#ifndef TC_ROW_TABLE_H
#define TC_ROW_TABLE_H

#include "tc_math.h"

static inline void tc_row_table(const int8_t **rows, const uint8_t *arena, const uint16_t *table,
                                int32_t unit, int32_t first, int32_t dilation, int32_t count, int32_t in_h,
                                const int8_t *pad)
{
    for (int32_t k = 0; k < count; k++) {
        const int32_t row = first + k * dilation;
        rows[k] = row >= 0 && row < in_h ? (const int8_t *)(arena + unit * table[row]) : pad;
    }
}

/* The same of rows that move: places holds where the rows of this call lie, 0xffff for pad. */
static inline void tc_row_places(const int8_t **rows, const uint8_t *arena, const uint16_t *places,
                                 int32_t unit, int32_t count, const int8_t *pad)
{
    for (int32_t k = 0; k < count; k++) {
        rows[k] = places[k] == 0xffffu ? pad : (const int8_t *)(arena + unit * places[k]);
    }
}

/* Copies `bytes` bytes, a whole number of words, from word to word; to and from do not overlap. */
static inline void tc_copy_words(uint8_t *to, const uint8_t *from, int32_t bytes)
{
#if TC_GNU
    tc_word_t *target = (tc_word_t *)(void *)to;
    const tc_word_t *source = (const tc_word_t *)(const void *)from;
    const int32_t words = bytes / 4;
    int32_t i = 0;

    for (; i + 4 <= words; i += 4) {
        const tc_word_t a = source[i], b = source[i + 1], c = source[i + 2], d = source[i + 3];
        target[i] = a;
        target[i + 1] = b;
        target[i + 2] = c;
        target[i + 3] = d;
    }
    for (; i < words; i++) {
        target[i] = source[i];
    }
#else
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
#endif
}

/* Copies constants from slow flash to RAM, where a kernel then reads them again and again. */
static TC_UNUSED TC_ENTRY void tc_copy_stream(uint8_t *to, const void *from, int32_t bytes)
{
    tc_copy_words(to, (const uint8_t *)from, bytes);
}

/* Moves `bytes` bytes, a whole number of words or not, to a lower address or to where they do not overlap. */
static inline void tc_move_rows(uint8_t *to, const uint8_t *from, int32_t bytes)
{
    int32_t i = 0;

#if TC_GNU
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        for (; i + 4 <= bytes; i += 4) {
            *(tc_word_t *)(void *)(to + i) = *(const tc_word_t *)(const void *)(from + i);
        }
    }
#endif
    for (; i < bytes; i++) {
        to[i] = from[i];
    }
}

#endif
