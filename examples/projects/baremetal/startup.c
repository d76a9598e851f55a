/* SPDX-License-Identifier: 0BSD */
/* What happens before main: the core takes its stack and its first instruction from the table of vectors; then the FPU
 * is switched on, .data comes from flash, and .bss becomes zero. Symbols with region_ are of memory.ld. */
#include <stddef.h>
#include <stdint.h>

#define CPACR (*(volatile uint32_t *)0xE000ED88u) /* coprocessor access control */
#define FPU_ON 0x00F00000u                        /* full access to coprocessors 10 and 11 */

extern uint32_t region_stack_end[], region_data[], region_data_end[], region_data_flash[], region_bss[], region_bss_end[];

int main(void);
void reset(void);

/* A fault, or an interrupt that nobody asked for: stop where a debugger sees it. */
static void stop(void)
{
    for (;;) {
    }
}

void reset(void)
{
    volatile uint32_t *to; /* volatile: else the compiler calls memcpy and memset of a libc */

    CPACR |= FPU_ON;
    __asm volatile("dsb\n\tisb" ::: "memory");
    to = region_data;
    for (const uint32_t *from = region_data_flash; to != region_data_end; from++) {
        *to++ = *from;
    }
    for (to = region_bss; to != region_bss_end;) {
        *to++ = 0;
    }
    (void)main();
    stop();
}

/* The entries of Armv7-M; those of the part's interrupts would follow. */
struct vectors {
    const uint32_t *stack;
    void (*reset)(void);
    void (*faults[5])(void); /* NMI, HardFault, MemManage, BusFault, UsageFault */
    void (*reserved[4])(void);
    void (*svcall)(void);
    void (*debug)(void);
    void (*reserved_too)(void);
    void (*pendsv)(void);
    void (*systick)(void);
};

__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
    .stack = region_stack_end,
    .reset = reset,
    .faults = {stop, stop, stop, stop, stop},
    .svcall = stop,
    .debug = stop,
    .pendsv = stop,
    .systick = stop,
};
