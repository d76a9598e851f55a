/* SPDX-License-Identifier: 0BSD */
/* Time in cycles of the core. On a Cortex-M SysTick counts them, and an interrupt every 2^24 keeps the high part; RISC-V
 * has a counter of 64 bits. */
#ifndef TC_TIMER_H
#define TC_TIMER_H

#include <stdint.h>

void tc_timer_open(void);

/* Cycles since tc_timer_open. */
uint64_t tc_timer_cycles(void);

/* Cycles between two readings close to each other: of SysTick, or with TC_DWT of DWT. Only firmware for a machine that is
 * known to have it is built so: elsewhere a mere look for DWT may fault, or make an emulator warn. An interval must be
 * shorter than 2^32 cycles. */
uint32_t tc_timer_stamp(void);

#endif
