/* SPDX-License-Identifier: 0BSD */
/* The performance counter of Espressif's RISC-V cores, which have none of the standard's (ESP32-C3 technical reference
 * manual, CPU): 32 bits, so that the high part is kept here. Somebody has to ask at least every 2^32 cycles. */
#include "csr_riscv.h"
#include "timer.h"

#define EVENT "0x7E0"   /* mpcer: bit 0, cycles */
#define CONTROL "0x7E1" /* mpcmr: bit 0, it counts */
#define COUNT "0x7E2"   /* mpccr */

static uint32_t high, before;

void tc_timer_open(void)
{
    TC_WRITE_CSR(EVENT, 1);
    TC_WRITE_CSR(CONTROL, 1);
    high = 0;
    before = tc_timer_stamp();
}

uint64_t tc_timer_cycles(void)
{
    const uint32_t now = tc_timer_stamp();
    if (now < before) high++;
    before = now;
    return (uint64_t)high << 32 | now;
}

uint32_t tc_timer_stamp(void)
{
    uint32_t count;
    TC_READ_CSR(COUNT, count);
    return count;
}
