/* SPDX-License-Identifier: 0BSD */
/* Logistic and tanh of int16, Q0.15, by one interpolated table: the bits of TensorFlow Lite's reference
 * kernels.
 *
 * at: the input in steps of 1 / (3 * 4096). table[k]: logistic(k / 24), Q0.16, and half of what interpolation
 * misses behind it; beyond the last the function is 1.
 */
#ifndef TC_LOGISTIC_H
#define TC_LOGISTIC_H

#include "tc_math.h"

/* A layer of n elements: at = (x * mult + 2^(shift - 1)) >> shift, mult of 15 bits. */
typedef struct {
    const uint16_t *table; /* [256] */
    int32_t mult, shift;
    int32_t n;
} tc_logistic_t;

static inline int32_t tc_logistic_place(const tc_logistic_t *p, int32_t x)
{
    return p->shift > 0 ? (x * p->mult + ((int32_t)1 << (p->shift - 1))) >> p->shift : x * p->mult;
}

/* The table at `size`, of whose bits the lowest `bits` lie between two entries. */
static inline int32_t tc_logistic_look_up(const uint16_t *table, int32_t size, int32_t bits, int32_t beyond)
{
    const int32_t index = size >> bits;
    if (index >= 255) return beyond;
    return ((int32_t)table[index] << bits) + (size & ((1 << bits) - 1)) * (table[index + 1] - table[index]);
}

static inline int32_t tc_logistic_at(const uint16_t *table, int32_t at)
{
    const int32_t y = tc_logistic_look_up(table, at < 0 ? -at : at, 9, 0x7FFF << 10);
    return (at >= 0 ? y + (1 << 9) : (1 << 25) - y + (1 << 9) - 1) >> 10;
}

static inline int32_t tc_tanh_at(const uint16_t *table, int32_t at)
{
    const int32_t y = tc_logistic_look_up(table, at < 0 ? -at : at, 8, 0xFFFF << 8);
    return (at >= 0 ? y - (1 << 23) + (1 << 7) : -y + (1 << 23) + (1 << 7) - 1) >> 8;
}

#endif
