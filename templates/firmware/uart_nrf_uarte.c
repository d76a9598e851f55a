/* SPDX-License-Identifier: 0BSD */
/* UARTE of Nordic nRF52 and nRF53 (nRF52840 Product Specification, 6.34) and, with TC_UART_NRF54, of nRF54L (nRF54L15 data
 * sheet, UARTE): tasks, events, and bytes by EasyDMA, one at a time, from and to RAM. Renode's platform has it, and not the
 * older UART (uart_nrf.c). */
#include "uart.h"

#ifdef TC_UART_NRF54
enum { TASKS_STARTRX = 0x028, TASKS_STARTTX = 0x050, EVENTS_ENDRX = 0x14C, EVENTS_ENDTX = 0x168 };
enum { RXD_PTR = 0x704, RXD_MAXCNT = 0x708, TXD_PTR = 0x73C, TXD_MAXCNT = 0x740 };
#else
enum { TASKS_STARTRX = 0x000, TASKS_STARTTX = 0x008, EVENTS_ENDRX = 0x110, EVENTS_ENDTX = 0x120 };
enum { RXD_PTR = 0x534, RXD_MAXCNT = 0x538, TXD_PTR = 0x544, TXD_MAXCNT = 0x548 };
#endif
enum { ENABLE = 0x500, BAUDRATE = 0x524 };
enum { ENABLE_UARTE = 8 };

static volatile uint8_t received, sent;

/* The table of the specification; for another rate 2^32 / 16 MHz for each baud, in steps of 2^12. */
static uint32_t baudrate(void)
{
    switch (TC_UART_BAUD) {
    case 57600: return 0x00EB0000u;
    case 115200: return 0x01D60000u;
    case 230400: return 0x03B00000u;
    case 460800: return 0x07400000u;
    case 921600: return 0x0F000000u;
    default: return (uint32_t)((((uint64_t)TC_UART_BAUD << 32) / 16000000u + 0x800u) & 0xFFFFF000u);
    }
}

static void receive_next(void)
{
    TC_UART_REGISTER(EVENTS_ENDRX) = 0; /* before it starts: the next byte may be there already */
    TC_UART_REGISTER(TASKS_STARTRX) = 1;
}

void tc_uart_open(void)
{
    TC_UART_REGISTER(BAUDRATE) = baudrate();
    TC_UART_REGISTER(ENABLE) = ENABLE_UARTE;
    TC_UART_REGISTER(RXD_PTR) = (uint32_t)(uintptr_t)&received;
    TC_UART_REGISTER(RXD_MAXCNT) = 1;
    TC_UART_REGISTER(TXD_PTR) = (uint32_t)(uintptr_t)&sent;
    TC_UART_REGISTER(TXD_MAXCNT) = 1;
    receive_next();
}

int tc_uart_has_byte(void)
{
    return TC_UART_REGISTER(EVENTS_ENDRX) != 0;
}

uint8_t tc_uart_read(void)
{
    const uint8_t byte = received;
    receive_next();
    return byte;
}

void tc_uart_write(uint8_t byte)
{
    sent = byte;
    TC_UART_REGISTER(EVENTS_ENDTX) = 0;
    TC_UART_REGISTER(TASKS_STARTTX) = 1;
    while (TC_UART_REGISTER(EVENTS_ENDTX) == 0) {
    }
}

void tc_uart_flush(void) {}
