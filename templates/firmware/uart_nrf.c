/* SPDX-License-Identifier: 0BSD */
/* UART of Nordic nRF51, and of nRF52 beside its UARTE (nRF52840 Product Specification, 6.33): tasks and events. The event of a
 * byte sent is set by sending, so it is waited for behind each byte. */
#include "uart.h"

enum { TASKS_STARTRX = 0x000, TASKS_STARTTX = 0x008, EVENTS_RXDRDY = 0x108, EVENTS_TXDRDY = 0x11C };
enum { ENABLE = 0x500, RXD = 0x518, TXD = 0x51C, BAUDRATE = 0x524 };
enum { ENABLE_UART = 4 };

void tc_uart_open(void)
{
    /* 2^32 / 16 MHz for each baud, in steps of 2^12. */
    TC_UART_REGISTER(BAUDRATE) = (uint32_t)((((uint64_t)TC_UART_BAUD << 32) / 16000000u + 0x800u) & 0xFFFFF000u);
    TC_UART_REGISTER(ENABLE) = ENABLE_UART;
    TC_UART_REGISTER(EVENTS_RXDRDY) = 0;
    TC_UART_REGISTER(TASKS_STARTTX) = 1;
    TC_UART_REGISTER(TASKS_STARTRX) = 1;
}

int tc_uart_has_byte(void)
{
    return TC_UART_REGISTER(EVENTS_RXDRDY) != 0;
}

uint8_t tc_uart_read(void)
{
    TC_UART_REGISTER(EVENTS_RXDRDY) = 0; /* before the byte is taken: the next one may follow at once */
    return (uint8_t)TC_UART_REGISTER(RXD);
}

void tc_uart_write(uint8_t byte)
{
    TC_UART_REGISTER(EVENTS_TXDRDY) = 0;
    TC_UART_REGISTER(TXD) = byte;
    while (TC_UART_REGISTER(EVENTS_TXDRDY) == 0) {
    }
}

void tc_uart_flush(void) {}
