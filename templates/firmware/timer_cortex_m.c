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
#define DWT_LAR REGISTER(0xE0001FB0)

static volatile uint32_t wraps;
static int has_dwt;

void tc_systick(void); /* the vector; startup_cortex_m.S */
void tc_systick(void)
{
    wraps++;
}

#if __ARM_ARCH >= 7
static int dwt_counts(void)
{
    uint32_t before;
    DEMCR |= 1u << 24; /* TRCENA */
#ifdef TC_CACHES
    DWT_LAR = 0xC5ACCE55u; /* the Cortex-M7 locks it */
#endif
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1u;
    before = DWT_CYCCNT;
    for (int i = 0; i < 1000; i++) { /* an emulator may count whole blocks */
        if (DWT_CYCCNT != before) return 1;
    }
    return 0;
}
#else
static int dwt_counts(void)
{
    return 0;
}
#endif

void tc_timer_open(void)
{
    SYST_RVR = 0x00FFFFFFu;
    SYST_CVR = 0;
    SYST_CSR = 7; /* the core's clock, interrupt, on */
    has_dwt = dwt_counts();
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
    return has_dwt ? DWT_CYCCNT : (uint32_t)tc_timer_cycles();
}
