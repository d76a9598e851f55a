/* Time in cycles of the core. On a Cortex-M SysTick counts them, and an interrupt every 2^24 keeps the high part; RISC-V
 * has a counter of 64 bits. */
#ifndef TC_TIMER_H
#define TC_TIMER_H

#include <stdint.h>

void tc_timer_open(void);

/* Cycles since tc_timer_open. */
uint64_t tc_timer_cycles(void);

/* Cycles between two readings close to each other: on a Cortex-M of DWT, which no interrupt serves, where the core has
 * it and it counts; else of SysTick. An interval must be shorter than 2^32 cycles. */
uint32_t tc_timer_stamp(void);

#endif
