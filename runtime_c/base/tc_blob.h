/* SPDX-License-Identifier: 0BSD */
/* Constants that lie apart from the code, in a file that tinyc/emit/blob.py describes. The arena holds their
 * address. */
#ifndef TC_BLOB_H
#define TC_BLOB_H

#include "tc_math.h"

#define TC_BLOB_HEADER 64
#define TC_BLOB_SIGNATURE 64

/* Where the constants are, in the arena; its complement tells it from what lay there before. */
typedef struct {
    const uint8_t *at;
    uintptr_t check;
} tc_attached_t;

static inline void tc_attach(tc_attached_t *slot, const void *blob)
{
    slot->at = (const uint8_t *)blob;
    slot->check = ~(uintptr_t)blob;
}

static inline int tc_is_attached(const tc_attached_t *slot)
{
    return slot->at != NULL && slot->check == ~(uintptr_t)slot->at;
}

static inline uint32_t tc_blob_word(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Whether a file of so many bytes is one: its magic, its format and its size. */
static inline int tc_blob_is(const uint8_t *blob, size_t bytes)
{
    return blob != NULL && (uintptr_t)blob % 8 == 0 && bytes >= TC_BLOB_HEADER + TC_BLOB_SIGNATURE &&
           tc_blob_word(blob) == 0x42574354u && tc_blob_word(blob + 4) == (1u | TC_BLOB_HEADER << 16) &&
           tc_blob_word(blob + 8) == bytes;
}

/* code: 16 bytes. */
static inline int tc_blob_is_for(const uint8_t *blob, const uint8_t *code)
{
    uint8_t differs = 0;

    for (int32_t i = 0; i < 16; i++) {
        differs = (uint8_t)(differs | (blob[16 + i] ^ code[i]));
    }
    return differs == 0;
}

/* CRC-32 of IEEE 802.3, four bits at a time. */
static inline uint32_t tc_blob_crc(uint32_t crc, const uint8_t *data, size_t bytes)
{
    static const uint32_t of[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u,
            0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u,
            0xbdbdf21cu,
    };

    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ of[crc & 15];
        crc = crc >> 4 ^ of[crc & 15];
    }
    return crc;
}

static inline int tc_blob_is_whole(const uint8_t *blob, size_t bytes)
{
    uint32_t crc = tc_blob_crc(0xffffffffu, blob, 48);

    crc = tc_blob_crc(crc, blob + TC_BLOB_HEADER, bytes - TC_BLOB_HEADER - TC_BLOB_SIGNATURE);
    return ~crc == tc_blob_word(blob + 48);
}

/* Fields that nothing sets are zero. Not an initializer: compilers make a call of memset of that. */
static inline void tc_clear_params(void *params, size_t bytes)
{
    uint8_t *to = (uint8_t *)params;

    for (size_t i = 0; i < bytes; i++) {
        to[i] = 0;
    }
}

#endif
