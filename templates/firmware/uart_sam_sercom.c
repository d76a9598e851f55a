/* SPDX-License-Identifier: 0BSD */
/* SERCOM of SAM D and E as a USART (data sheets DS40001882 and DS60001507, SERCOM USART): TX on pad 0, RX on
 * pad 1. Registers have 1, 2 or 4 bytes; after some writes SYNCBUSY says when the slower clock has taken them. */
#include "uart.h"

enum { CTRLA = 0x00, CTRLB = 0x04, BAUD = 0x0C, INTFLAG = 0x18, SYNCBUSY = 0x1C, DATA = 0x28 };
enum { CTRLA_SWRST = 1 << 0, CTRLA_ENABLE = 1 << 1, CTRLA_INTERNAL_CLOCK = 1 << 2, CTRLA_RX_PAD_1 = 1 << 20, CTRLA_LSB_FIRST = 1 << 30 };
enum { CTRLB_TXEN = 1 << 16, CTRLB_RXEN = 1 << 17 };
enum { DRE = 1 << 0, TXC = 1 << 1, RXC = 1 << 2 };

#define REGISTER8(offset) (*(volatile uint8_t *)(uintptr_t)(TC_UART_BASE + (offset)))
#define REGISTER16(offset) (*(volatile uint16_t *)(uintptr_t)(TC_UART_BASE + (offset)))

static void synchronize(void)
{
    while (TC_UART_REGISTER(SYNCBUSY) != 0) {
    }
}

void tc_uart_open(void)
{
    const uint32_t mode = CTRLA_INTERNAL_CLOCK | CTRLA_RX_PAD_1 | CTRLA_LSB_FIRST;
    TC_UART_REGISTER(CTRLA) = CTRLA_SWRST; /* a bootloader may have used it */
    synchronize();
    TC_UART_REGISTER(CTRLA) = mode;
    /* clock / 16 * (1 - BAUD / 2^16) */
    REGISTER16(BAUD) = (uint16_t)(65536u - (uint32_t)(((uint64_t)TC_UART_BAUD * (16u << 16) + TC_UART_CLOCK_HZ / 2u) / TC_UART_CLOCK_HZ));
    TC_UART_REGISTER(CTRLB) = CTRLB_TXEN | CTRLB_RXEN;
    synchronize();
    TC_UART_REGISTER(CTRLA) = mode | CTRLA_ENABLE;
    synchronize();
}

int tc_uart_has_byte(void)
{
    return (REGISTER8(INTFLAG) & RXC) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)REGISTER16(DATA);
}

void tc_uart_write(uint8_t byte)
{
    while ((REGISTER8(INTFLAG) & DRE) == 0) {
    }
    REGISTER16(DATA) = byte;
}

void tc_uart_flush(void)
{
    while ((REGISTER8(INTFLAG) & TXC) == 0) {
    }
}
