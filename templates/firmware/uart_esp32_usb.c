/* SPDX-License-Identifier: 0BSD */
/* The serial port behind the USB socket of Espressif's RISC-V chips (ESP32-C3 and C6 technical reference manuals, USB
 * Serial/JTAG Controller): packets of at most 64 bytes; a full one goes by itself, any other when it is told to. */
#include "uart.h"

enum { EP1 = 0x00, EP1_CONF = 0x04 };
enum { CONF_SEND = 1 << 0, CONF_HAS_ROOM = 1 << 1, CONF_RECEIVED = 1 << 2 };

static int begun; /* a packet */

/* There is no room until the computer has the packet before: without one that reads, the firmware waits for it. */
static void await_room(void)
{
    while ((TC_UART_REGISTER(EP1_CONF) & CONF_HAS_ROOM) == 0) {
    }
}

/* Behind a full packet an empty one, or the computer may wait for more. */
static void send(void)
{
    if (!begun) return;
    await_room();
    TC_UART_REGISTER(EP1_CONF) = CONF_SEND;
    begun = 0;
}

void tc_uart_open(void)
{
    begun = 0;
}

/* Whoever asks has said what there was to say. */
int tc_uart_has_byte(void)
{
    send();
    return (TC_UART_REGISTER(EP1_CONF) & CONF_RECEIVED) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(EP1);
}

void tc_uart_write(uint8_t byte)
{
    await_room();
    TC_UART_REGISTER(EP1) = byte;
    begun = 1;
}

void tc_uart_flush(void)
{
    send();
    await_room();
}
