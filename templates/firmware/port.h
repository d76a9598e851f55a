/* SPDX-License-Identifier: 0BSD */
/* What the harness (main.c) needs from the machine that it runs on. One port_*.c implements it. */
#ifndef TC_PORT_H
#define TC_PORT_H

#include <stddef.h>
#include <stdint.h>

#define TC_NOT_MEASURED 0xFFFFFFFFu
#define TC_CYCLES_NOT_MEASURED 0xFFFFFFFFFFFFFFFFu
#define TC_GUARD_BYTES 64u

/* How many bytes at once main.c reads. */
#ifndef TC_RECEIVE_BYTES
#define TC_RECEIVE_BYTES 0xFFFFFFFFu
#endif

void tc_port_open(void);

/* All `bytes` bytes, or 0 when the stream has ended (on a UART: when the rest of a request does not come). */
int tc_port_read(void *data, uint32_t bytes);
void tc_port_write(const void *data, uint32_t bytes);
void tc_port_flush(void); /* what was written leaves now */
void tc_port_exit(int code);

/* `bytes` bytes of memory for the arena with TC_GUARD_BYTES of guard on both sides, filled by main.c.
 * Without guards (the machine itself stops an access outside) *guarded is 0. */
uint8_t *tc_port_arena(int *guarded);

typedef struct {
    uint32_t stack_bytes; /* the deepest stack that the call used, or TC_NOT_MEASURED */
    uint64_t cycles;      /* that the call took, or TC_CYCLES_NOT_MEASURED */
} tc_measured_t;

/* Calls the model; what the machine cannot measure stays as it was. */
int tc_port_run(void *arena, tc_measured_t *measured);

/* Time since the start, for firmware that reports times. */
uint64_t tc_port_microseconds(void);

/* The board starts again. machine_*.c */
void tc_machine_reset(void) __attribute__((noreturn));

/* From the machine's fault handler; sends the words to the host and ends the run. */
#define TC_FAULT_WORDS 9
void tc_fault(const uint32_t words[TC_FAULT_WORDS]);

#endif
