/* SPDX-License-Identifier: 0BSD */
/* USART of STM32 F1, F2, F4 and L1 (RM0090, 30.6): one data register DR, state in SR. */
#include "uart.h"

enum { SR = 0x00, DR = 0x04, BRR = 0x08, CR1 = 0x0C };
enum { SR_RXNE = 1 << 5, SR_TC = 1 << 6, SR_TXE = 1 << 7 };
enum { CR1_RE = 1 << 2, CR1_TE = 1 << 3, CR1_UE = 1 << 13 };

void tc_uart_open(void)
{
    TC_UART_REGISTER(BRR) = TC_UART_DIVISOR;
    TC_UART_REGISTER(CR1) = CR1_UE | CR1_TE | CR1_RE;
}

int tc_uart_has_byte(void)
{
    return (TC_UART_REGISTER(SR) & SR_RXNE) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(DR);
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(SR) & SR_TXE) == 0) {
    }
    TC_UART_REGISTER(DR) = byte;
}

void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(SR) & SR_TC) == 0) {
    }
}
