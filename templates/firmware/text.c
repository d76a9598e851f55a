/* SPDX-License-Identifier: 0BSD */
#include "text.h"

#include "port.h"

void tc_put_text(const char *text)
{
    uint32_t length = 0;
    while (text[length] != 0) length++;
    tc_port_write(text, length);
}

void tc_put_number(uint64_t value)
{
    char digits[21];
    uint32_t at = 20;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    tc_put_text(digits + at);
}

void tc_put_hex(const uint8_t *data, uint32_t bytes)
{
    static const char digit[] = "0123456789abcdef";
    for (uint32_t i = 0; i < bytes; i++) {
        char pair[2];
        pair[0] = digit[data[i] >> 4];
        pair[1] = digit[data[i] & 15];
        tc_port_write(pair, 2);
    }
}
