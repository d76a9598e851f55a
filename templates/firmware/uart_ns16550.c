/* SPDX-License-Identifier: 0BSD */
/* UART of the 16550 kind with byte registers side by side (PC16550D data sheet, 8.0), as on QEMU's RISC-V machine. */
#include "uart.h"

enum { DATA = 0, DIVISOR_LOW = 0, DIVISOR_HIGH = 1, FIFO = 2, LINE = 3, STATE = 5 };
enum { FIFO_ON_AND_EMPTY = 7, LINE_8_BITS = 3, LINE_DIVISOR = 0x80 };
enum { RX_FULL = 1 << 0, TX_EMPTY = 1 << 5, TX_IDLE = 1 << 6 };

static volatile uint8_t *const registers = (volatile uint8_t *)(uintptr_t)TC_UART_BASE;

void tc_uart_open(void)
{
    const uint32_t divisor = (TC_UART_DIVISOR + 8u) / 16u;
    registers[LINE] = LINE_DIVISOR | LINE_8_BITS;
    registers[DIVISOR_LOW] = (uint8_t)divisor;
    registers[DIVISOR_HIGH] = (uint8_t)(divisor >> 8);
    registers[LINE] = LINE_8_BITS;
    registers[FIFO] = FIFO_ON_AND_EMPTY;
}

int tc_uart_has_byte(void)
{
    return (registers[STATE] & RX_FULL) != 0;
}

uint8_t tc_uart_read(void)
{
    return registers[DATA];
}

void tc_uart_write(uint8_t byte)
{
    while ((registers[STATE] & TX_EMPTY) == 0) {
    }
    registers[DATA] = byte;
}

void tc_uart_flush(void)
{
    while ((registers[STATE] & TX_IDLE) == 0) {
    }
}
