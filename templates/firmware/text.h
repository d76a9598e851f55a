/* SPDX-License-Identifier: 0BSD */
/* Lines of text, for firmware that speaks to people or scripts. */
#ifndef TC_TEXT_H
#define TC_TEXT_H

#include <stdint.h>

void tc_put_text(const char *text);
void tc_put_number(uint64_t value); /* in decimal digits */
void tc_put_hex(const uint8_t *data, uint32_t bytes);

#endif
