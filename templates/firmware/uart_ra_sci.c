/* SPDX-License-Identifier: 0BSD */
/* SCI of Renesas RA (RA4M1 manual, R01UH0887, Serial Communications Interface), asynchronous and without FIFO: registers
 * of one byte. */
#include "uart.h"

enum { SMR = 0x00, BRR = 0x01, SCR = 0x02, TDR = 0x03, SSR = 0x04, RDR = 0x05, SCMR = 0x06, SEMR = 0x07 };
enum { SCR_RE = 1 << 4, SCR_TE = 1 << 5 };
enum { SSR_TEND = 1 << 2, SSR_PER = 1 << 3, SSR_FER = 1 << 4, SSR_ORER = 1 << 5, SSR_RDRF = 1 << 6, SSR_TDRE = 1 << 7 };
enum { SCMR_PLAIN = 0xF2, SEMR_ABCS = 1 << 4, SEMR_BGDM = 1 << 6 };
enum { ERRORS = SSR_PER | SSR_FER | SSR_ORER };

#define REGISTER8(offset) (*(volatile uint8_t *)(uintptr_t)(TC_UART_BASE + (offset)))

void tc_uart_open(void)
{
    REGISTER8(SCR) = 0; /* off: a bootloader may have used it */
    REGISTER8(SMR) = 0; /* 8 bits, no parity, the undivided clock */
    REGISTER8(SCMR) = SCMR_PLAIN;
    REGISTER8(SEMR) = SEMR_BGDM | SEMR_ABCS; /* clock / 8 / (BRR + 1) */
    REGISTER8(BRR) = (uint8_t)((TC_UART_CLOCK_HZ + 4u * TC_UART_BAUD) / (8u * TC_UART_BAUD) - 1u);
    REGISTER8(SCR) = SCR_TE | SCR_RE;
}

/* An error stops reception until it is cleared, by a zero; ones change nothing. */
int tc_uart_has_byte(void)
{
    const uint8_t state = REGISTER8(SSR);
    if ((state & ERRORS) != 0) REGISTER8(SSR) = SSR_TDRE | SSR_RDRF;
    return (state & SSR_RDRF) != 0;
}

uint8_t tc_uart_read(void)
{
    return REGISTER8(RDR);
}

void tc_uart_write(uint8_t byte)
{
    while ((REGISTER8(SSR) & SSR_TDRE) == 0) {
    }
    REGISTER8(TDR) = byte;
}

void tc_uart_flush(void)
{
    while ((REGISTER8(SSR) & SSR_TEND) == 0) {
    }
}
