/* Time on a Cortex-M: SysTick counts the core's clock, an interrupt every 2^24 cycles keeps the high part. */
#ifndef TC_TIMER_H
#define TC_TIMER_H

#include <stdint.h>

void tc_timer_open(void);

/* Cycles since tc_timer_open. */
uint64_t tc_timer_cycles(void);

/* Cycles between two readings close to each other: of DWT, which no interrupt serves, where the core has it and it
 * counts; else of SysTick. An interval must be shorter than 2^32 cycles. */
uint32_t tc_timer_stamp(void);

#endif
