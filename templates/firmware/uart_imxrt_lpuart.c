/* SPDX-License-Identifier: 0BSD */
/* LPUART of NXP's i.MX RT (IMXRT1060RM, 49): its clock divided by SBR and by a number of samples a bit. */
#include "uart.h"

enum { GLOBAL = 0x08, BAUD = 0x10, STAT = 0x14, CTRL = 0x18, DATA = 0x1C };
enum { GLOBAL_RST = 1 << 1, BAUD_OSR = 24, CTRL_RE = 1 << 18, CTRL_TE = 1 << 19 };
enum { STAT_OR = 1 << 19, STAT_RDRF = 1 << 21, STAT_TC = 1 << 22, STAT_TDRE = 1 << 23 };
enum { FEWEST_SAMPLES = 8, MOST_SAMPLES = 32 };

/* The pair that comes nearest to the rate. */
static uint32_t baud(void)
{
    uint32_t least = UINT32_MAX, best = 0;
    for (uint32_t samples = MOST_SAMPLES; samples >= FEWEST_SAMPLES; samples--) {
        const uint32_t bit = samples * TC_UART_BAUD;
        const uint32_t divisor = (TC_UART_CLOCK_HZ + bit / 2u) / bit;
        const uint32_t rate = divisor == 0 ? 0 : TC_UART_CLOCK_HZ / (samples * divisor);
        const uint32_t error = rate > TC_UART_BAUD ? rate - TC_UART_BAUD : TC_UART_BAUD - rate;
        if (divisor < 0x2000u && error < least) {
            least = error;
            best = (samples - 1u) << BAUD_OSR | divisor;
        }
    }
    return best;
}

void tc_uart_open(void)
{
    TC_UART_REGISTER(GLOBAL) = GLOBAL_RST; /* the boot ROM may have used it */
    TC_UART_REGISTER(GLOBAL) = 0;
    TC_UART_REGISTER(BAUD) = baud();
    TC_UART_REGISTER(CTRL) = CTRL_TE | CTRL_RE;
}

/* An overrun stops reception until it is cleared, by a one. */
int tc_uart_has_byte(void)
{
    const uint32_t state = TC_UART_REGISTER(STAT);
    if ((state & STAT_OR) != 0) TC_UART_REGISTER(STAT) = STAT_OR;
    return (state & STAT_RDRF) != 0;
}

uint8_t tc_uart_read(void)
{
    return (uint8_t)TC_UART_REGISTER(DATA);
}

void tc_uart_write(uint8_t byte)
{
    while ((TC_UART_REGISTER(STAT) & STAT_TDRE) == 0) {
    }
    TC_UART_REGISTER(DATA) = byte;
}

void tc_uart_flush(void)
{
    while ((TC_UART_REGISTER(STAT) & STAT_TC) == 0) {
    }
}
