/* SPDX-License-Identifier: 0BSD */
/* The cycle counter of machine mode (RISC-V Privileged Architecture, 3.1.10). */
#include "csr_riscv.h"
#include "timer.h"

/* Some stop the counter to save power. */
void tc_timer_open(void)
{
#ifdef TC_COUNTER_STANDS
    TC_WRITE_CSR("mcountinhibit", 0);
#endif
}

uint64_t tc_timer_cycles(void)
{
    uint32_t high, low, again;
    do {
        TC_READ_CSR("mcycleh", high);
        TC_READ_CSR("mcycle", low);
        TC_READ_CSR("mcycleh", again);
    } while (high != again);
    return (uint64_t)high << 32 | low;
}

uint32_t tc_timer_stamp(void)
{
    uint32_t low;
    TC_READ_CSR("mcycle", low);
    return low;
}
