/* SPDX-License-Identifier: 0BSD */
/* From reset to main: FPU on, variables as they begin. Interrupts of the part follow the sixteen of the core; this program
 * uses none. */
#include <stdint.h>

extern uint32_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_top[];
int main(void);
void Reset_Handler(void);

static void halt(void)
{
    for (;;) {
    }
}

void Reset_Handler(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: coprocessors 10 and 11, before any float */
    __asm volatile("dsb\n isb" ::: "memory");
#endif
    const uint32_t *from = data_load;
    for (volatile uint32_t *to = data_begin; to < data_end; to++) {
        *to = *from++;
    }
    for (volatile uint32_t *to = bss_begin; to < bss_end; to++) {
        *to = 0;
    }
    main();
    halt();
}

typedef struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors_t;

__attribute__((section(".vectors"), used)) static const vectors_t vectors = {
    stack_top, {Reset_Handler, halt, halt, halt, halt, halt, 0, 0, 0, 0, halt, halt, 0, halt, halt}};
