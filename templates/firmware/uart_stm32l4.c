/* SPDX-License-Identifier: 0BSD */
/* USART and LPUART of STM32 F0, F3, F7, G0, G4, H7, L0, L4, L5 (RM0432, 44.8): RDR, TDR, state in ISR. With
 * TC_UART_LPUART the baud rate generator counts 256ths of a clock (RM0432, 45.4). */
#include "uart.h"

enum { CR1 = 0x00, BRR = 0x0C, ISR = 0x1C, ICR = 0x20, RDR = 0x24, TDR = 0x28 };
enum { CR1_UE = 1 << 0, CR1_RE = 1 << 2, CR1_TE = 1 << 3 };
enum { ISR_RXNE = 1 << 5, ISR_TC = 1 << 6, ISR_TXE = 1 << 7 };
enum { ICR_ORECF = 1 << 3 };

void tc_uart_open(void)
{
#ifdef TC_UART_LPUART
    TC_UART_REGISTER(BRR) = (uint32_t)((256ull * TC_UART_CLOCK_HZ + TC_UART_BAUD / 2u) / TC_UART_BAUD);
#else
    TC_UART_REGISTER(BRR) = TC_UART_DIVISOR;
#endif
    TC_UART_REGISTER(CR1) = CR1_UE | CR1_TE | CR1_RE;
}

/* An overrun would stop reception until it is cleared. */
int tc_uart_has_byte(void)
{
    TC_UART_REGISTER(ICR) = ICR_ORECF;
    return (TC_UART_REGISTER(ISR) & ISR_RXNE) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(RDR);
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(ISR) & ISR_TXE) == 0) {
    }
    TC_UART_REGISTER(TDR) = byte;
}

void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(ISR) & ISR_TC) == 0) {
    }
}
