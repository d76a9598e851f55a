/* SPDX-License-Identifier: 0BSD */
/* SCI_B of Renesas RA8 (RA8D1 manual, R01UH0995, Serial Communications Interface), asynchronous and without FIFO. */
#include "uart.h"

enum { RDR = 0x00, TDR = 0x04, CCR0 = 0x08, CCR1 = 0x0C, CCR2 = 0x10, CCR3 = 0x14, CCR4 = 0x18, CSR = 0x48, CFCLR = 0x68 };
enum { CCR0_RE = 1 << 0, CCR0_TE = 1 << 4, CCR1_HIGH = 3 << 4, CCR3_LSB_FIRST_8_BITS = 0x1200 };
enum { CSR_ORER = 1 << 24, CSR_PER = 1 << 27, CSR_FER = 1 << 28, CSR_TDRE = 1 << 29, CSR_TEND = 1 << 30 };

#define CSR_RDRF 0x80000000u
#define CCR2_6_CLOCKS 0xFF000044u /* of a bit: ABCSE; no modulation */
#define CLEAR_ALL 0x9D070010u
#define ERRORS ((uint32_t)(CSR_ORER | CSR_PER | CSR_FER))

void tc_uart_open(void)
{
    TC_UART_REGISTER(CCR0) = 0; /* off: a bootloader may have used it */
    TC_UART_REGISTER(CCR3) = CCR3_LSB_FIRST_8_BITS;
    TC_UART_REGISTER(CCR2) =
        CCR2_6_CLOCKS | ((TC_UART_CLOCK_HZ + 3u * TC_UART_BAUD) / (6u * TC_UART_BAUD) - 1u) << 8; /* clock / 6 / (BRR + 1) */
    TC_UART_REGISTER(CCR1) = CCR1_HIGH;
    TC_UART_REGISTER(CCR4) = 0;
    TC_UART_REGISTER(CFCLR) = CLEAR_ALL;
    TC_UART_REGISTER(CCR0) = CCR0_RE | CCR0_TE;
}

/* An error stops reception until it is cleared. */
int tc_uart_has_byte(void)
{
    const uint32_t state = TC_UART_REGISTER(CSR);
    if ((state & ERRORS) != 0) TC_UART_REGISTER(CFCLR) = ERRORS;
    return (state & CSR_RDRF) != 0;
}

uint8_t tc_uart_read(void)
{
    const uint8_t byte = (uint8_t)TC_UART_REGISTER(RDR);
    TC_UART_REGISTER(CFCLR) = CSR_RDRF;
    return byte;
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(CSR) & CSR_TDRE) == 0) {
    }
    TC_UART_REGISTER(TDR) = byte;
}

void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(CSR) & CSR_TEND) == 0) {
    }
}
