/* What the harness (main.c) needs from the machine that it runs on. One port_*.c implements it. */
#ifndef TC_PORT_H
#define TC_PORT_H

#include <stddef.h>
#include <stdint.h>

#define TC_NOT_MEASURED 0xFFFFFFFFu
#define TC_GUARD_BYTES 64u

void tc_port_open(void);

/* All `bytes` bytes, or 0 when the stream has ended. */
int tc_port_read(void *data, uint32_t bytes);
void tc_port_write(const void *data, uint32_t bytes);
void tc_port_exit(int code);

/* `bytes` bytes of memory for the arena with TC_GUARD_BYTES of guard on both sides, filled by main.c.
 * Without guards (the machine itself stops an access outside) *guarded is 0. */
uint8_t *tc_port_arena(int *guarded);

/* Calls the model. *stack_bytes: the deepest stack that the call used, or TC_NOT_MEASURED. */
int tc_port_run(void *arena, uint32_t *stack_bytes);

/* From the machine's fault handler; sends the words to the host and ends the run. */
#define TC_FAULT_WORDS 9
void tc_fault(const uint32_t words[TC_FAULT_WORDS]);

#endif
