/* SPDX-License-Identifier: 0BSD */
#include "timer.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define SYST_CSR REGISTER(0xE000E010)
#define SYST_RVR REGISTER(0xE000E014)
#define SYST_CVR REGISTER(0xE000E018)
#define ICSR REGISTER(0xE000ED04)
#define SYSTICK_PENDING (1u << 26)
#define DEMCR REGISTER(0xE000EDFC)
#define DWT_CTRL REGISTER(0xE0001000)
#define DWT_CYCCNT REGISTER(0xE0001004)

#if defined TC_DWT && __ARM_ARCH >= 7
#define HAS_DWT 1
#else
#define HAS_DWT 0
#endif

static volatile uint32_t wraps;

void tc_systick(void); /* the vector; startup_cortex_m.S */
void tc_systick(void)
{
    wraps++;
}

void tc_timer_open(void)
{
    SYST_RVR = 0x00FFFFFFu;
    SYST_CVR = 0;
    SYST_CSR = 7; /* the core's clock, interrupt, on */
#if HAS_DWT
    DEMCR |= 1u << 24; /* TRCENA */
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1u;
#endif
}

uint64_t tc_timer_cycles(void)
{
    uint32_t high, value;
    do { /* not between the wrap and its interrupt: time would go back */
        high = wraps;
        value = SYST_CVR;
    } while (high != wraps || (ICSR & SYSTICK_PENDING) != 0);
    return ((uint64_t)high << 24) + (0x00FFFFFFu - value);
}

uint32_t tc_timer_stamp(void)
{
#if HAS_DWT
    return DWT_CYCCNT;
#else
    return (uint32_t)tc_timer_cycles();
#endif
}
