/* SPDX-License-Identifier: 0BSD */
/* A UART that is polled. One uart_*.c for each kind of registers; TC_UART_BASE, TC_UART_CLOCK_HZ and TC_UART_BAUD come
 * from the board's description. Pins and clocks are set before, by tc_board_setup. */
#ifndef TC_UART_H
#define TC_UART_H

#include <stdint.h>

#define TC_UART_REGISTER(offset) (*(volatile uint32_t *)(uintptr_t)(TC_UART_BASE + (offset)))
#define TC_UART_DIVISOR ((TC_UART_CLOCK_HZ + TC_UART_BAUD / 2u) / TC_UART_BAUD)

void tc_uart_open(void);
int tc_uart_has_byte(void);
uint8_t tc_uart_read(void);         /* only when it has one */
void tc_uart_write(uint8_t byte);   /* waits until there is room */
void tc_uart_flush(void);           /* waits until the last byte has left */

#endif
