/* SPDX-License-Identifier: 0BSD */
/* UART of Arm's Cortex-M System Design Kit (DDI 0479, 4.3): DATA, STATE, CTRL, INTSTATUS, BAUDDIV. */
#include "uart.h"

enum { DATA = 0x00, STATE = 0x04, CTRL = 0x08, BAUDDIV = 0x10 };
enum { TX_FULL = 1, RX_FULL = 2, TX_RX_ENABLE = 3 };

void tc_uart_open(void)
{
    TC_UART_REGISTER(BAUDDIV) = TC_UART_DIVISOR;
    TC_UART_REGISTER(CTRL) = TX_RX_ENABLE;
}

int tc_uart_has_byte(void)
{
    return (TC_UART_REGISTER(STATE) & RX_FULL) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(DATA);
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(STATE) & TX_FULL) != 0) {
    }
    TC_UART_REGISTER(DATA) = byte;
}

/* Nothing says that the last byte has left: its ten bits are waited for, a clock at least for each reading. */
void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(STATE) & TX_FULL) != 0) {
    }
    for (uint32_t clocks = 0; clocks < 11u * TC_UART_DIVISOR; clocks++) (void)TC_UART_REGISTER(STATE);
}
