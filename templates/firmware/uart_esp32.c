/* SPDX-License-Identifier: 0BSD */
/* UART of the ESP32-C3 (technical reference manual, UART Controller), clocked by its crystal. */
#include "uart.h"

enum { FIFO = 0x00, CLKDIV = 0x14, STATUS = 0x1C, CONF0 = 0x20, FSM_STATUS = 0x6C, CLK_CONF = 0x78 };
enum { STATUS_RECEIVED = 0x3FF, STATUS_TO_SEND_AT = 16, FSM_SENDS = 0xF0, FIFO_BYTES = 128 };

#define CONF0_8_BITS_1_STOP 0x1000001Cu /* with a clock for the FIFOs */
#define CONF0_EMPTY_FIFOS 0x00060000u
#define CLK_CONF_CRYSTAL 0x03700000u /* undivided, for both directions */

static uint32_t to_send(void)
{
    return TC_UART_REGISTER(STATUS) >> STATUS_TO_SEND_AT & 0x3FFu;
}

/* Behind what the boot ROM has to say. */
void tc_uart_open(void)
{
    const uint32_t parts = (16u * TC_UART_CLOCK_HZ + TC_UART_BAUD / 2u) / TC_UART_BAUD; /* 16ths of clock / baud */
    tc_uart_flush();
    TC_UART_REGISTER(CLK_CONF) = CLK_CONF_CRYSTAL;
    TC_UART_REGISTER(CLKDIV) = parts >> 4 | (parts & 15u) << 20;
    TC_UART_REGISTER(CONF0) = CONF0_8_BITS_1_STOP | CONF0_EMPTY_FIFOS;
    TC_UART_REGISTER(CONF0) = CONF0_8_BITS_1_STOP;
}

int tc_uart_has_byte(void)
{
    return (TC_UART_REGISTER(STATUS) & STATUS_RECEIVED) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(FIFO);
}

void tc_uart_write(uint8_t byte)
{
    while (to_send() >= FIFO_BYTES - 1) {
    }
    TC_UART_REGISTER(FIFO) = byte;
}

void tc_uart_flush(void)
{
    while (to_send() != 0 || (TC_UART_REGISTER(FSM_STATUS) & FSM_SENDS) != 0) {
    }
}
