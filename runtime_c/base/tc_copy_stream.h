/* SPDX-License-Identifier: 0BSD */
/* Copies constants from slow flash to RAM, where a kernel then reads them again and again.
 *
 * `bytes`: a whole number of words; from word to word; to and from do not overlap.
 */
#ifndef TC_COPY_STREAM_H
#define TC_COPY_STREAM_H

#include "tc_row_table.h"

static TC_UNUSED TC_ENTRY void tc_copy_stream(uint8_t *to, const void *from, int32_t bytes)
{
    tc_copy_words(to, (const uint8_t *)from, bytes);
}

#endif
