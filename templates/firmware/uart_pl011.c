/* SPDX-License-Identifier: 0BSD */
/* Arm PrimeCell UART PL011 (DDI 0183), as in the RP2040. */
#include "uart.h"

enum { DR = 0x00, FR = 0x18, IBRD = 0x24, FBRD = 0x28, LCR_H = 0x2C, CR = 0x30 };
enum { FR_BUSY = 1 << 3, FR_RXFE = 1 << 4, FR_TXFF = 1 << 5 };
enum { LCR_H_FIFO = 1 << 4, LCR_H_8_BITS = 3 << 5, CR_ENABLE = 0x301 };

void tc_uart_open(void)
{
    uint32_t divisor = (8u * TC_UART_CLOCK_HZ / TC_UART_BAUD + 1u) / 2u; /* 64ths of clock / (16 baud) */
    TC_UART_REGISTER(IBRD) = divisor >> 6;
    TC_UART_REGISTER(FBRD) = divisor & 63u;
    TC_UART_REGISTER(LCR_H) = LCR_H_8_BITS | LCR_H_FIFO;
    TC_UART_REGISTER(CR) = CR_ENABLE;
}

int tc_uart_has_byte(void)
{
    return (TC_UART_REGISTER(FR) & FR_RXFE) == 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(DR);
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(FR) & FR_TXFF) != 0) {
    }
    TC_UART_REGISTER(DR) = byte;
}

void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(FR) & FR_BUSY) != 0) {
    }
}
