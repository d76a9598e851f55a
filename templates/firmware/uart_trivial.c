/* SPDX-License-Identifier: 0BSD */
/* Renode's TrivialUart: every word written is a character. It receives nothing. */
#include "uart.h"

void tc_uart_open(void) {}

int tc_uart_has_byte(void)
{
    return 0;
}

uint8_t tc_uart_read(void)
{
    return 0;
}

void tc_uart_write(uint8_t byte)
{
    TC_UART_REGISTER(0) = byte;
}

void tc_uart_flush(void) {}
