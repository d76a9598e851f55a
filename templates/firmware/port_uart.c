/* SPDX-License-Identifier: 0BSD */
/* The harness on a board: requests and replies over a UART. After its end, or a fault, the board starts again. */
#include "port.h"
#include "timer.h"
#include "uart.h"

#define CYCLES_OF_A_MICROSECOND (TC_CORE_HZ / 1000000u)

int tc_run_measured(void *arena, uint32_t *stack_bytes); /* startup_*.S */
int tc_timed_run(void *arena);                           /* which calls this */
int TC_TIMED_RUN(void *arena);                           /* the model's: nothing but its call is timed */

static uint64_t last_byte; /* cycles; 0: no request has begun */
static uint32_t cycles;

void tc_port_open(void)
{
    tc_uart_open();
    tc_timer_open();
}

uint64_t tc_port_microseconds(void)
{
    return tc_timer_cycles() / CYCLES_OF_A_MICROSECOND;
}

/* Waits for ever for a request, but not for the rest of one. */
int tc_port_read(void *data, uint32_t bytes)
{
    uint8_t *p = data;
    while (bytes > 0) {
        while (!tc_uart_has_byte()) {
#ifdef TC_REQUEST_SECONDS
            if (last_byte != 0 && tc_timer_cycles() > last_byte + (uint64_t)TC_CORE_HZ * TC_REQUEST_SECONDS) return 0;
#endif
        }
        *p++ = tc_uart_read();
        bytes--;
        last_byte = tc_timer_cycles() | 1;
    }
    return 1;
}

void tc_port_write(const void *data, uint32_t bytes)
{
    const uint8_t *p = data;
    while (bytes-- > 0) tc_uart_write(*p++);
    last_byte = 0;
}

void tc_port_flush(void)
{
    tc_uart_flush();
}

void tc_port_exit(int code)
{
    (void)code;
    tc_uart_flush();
#ifdef TC_STAYS_WHEN_DONE
    for (;;) {
    }
#else
    tc_machine_reset();
#endif
}

int tc_timed_run(void *arena)
{
    uint32_t began = tc_timer_stamp();
    int status = TC_TIMED_RUN(arena);
    cycles = tc_timer_stamp() - began;
    return status;
}

/* The cost of taking the time is measured by taking it twice, and left out. */
int tc_port_run(void *arena, tc_measured_t *measured)
{
    uint32_t began = tc_timer_stamp();
    uint32_t empty = tc_timer_stamp() - began;
    int status = tc_run_measured(arena, &measured->stack_bytes);
    measured->cycles = cycles > empty ? cycles - empty : 0;
    return status;
}
