/* Cortex-M: the memory protection unit, which makes every access outside the board's flash and RAM (and every
 * write to flash) a fault, and the report of faults. */
#include "port.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define CCR REGISTER(0xE000ED14)
#define CFSR REGISTER(0xE000ED28)
#define HFSR REGISTER(0xE000ED2C)
#define MMFAR REGISTER(0xE000ED34)
#define BFAR REGISTER(0xE000ED38)
#define MPU_TYPE REGISTER(0xE000ED90)
#define MPU_CTRL REGISTER(0xE000ED94)
#define MPU_RNR REGISTER(0xE000ED98)
#define MPU_RBAR REGISTER(0xE000ED9C)
#define MPU_RASR REGISTER(0xE000EDA0) /* RLAR in Armv8-M */
#define MPU_MAIR0 REGISTER(0xE000EDC0)

extern const uint32_t tc_stack_bottom[], tc_stack_top[];

void tc_machine_open(void);
void tc_machine_fault(const uint32_t *frame, uint32_t exc_return);

#if __ARM_ARCH >= 8

static void protect(uint32_t region, uint32_t origin, uint32_t bytes, int writable)
{
    MPU_RNR = region;
    MPU_RBAR = origin | (writable ? 1u : 4u); /* not shared; AP: read and write, or read only; XN */
    MPU_RASR = ((origin + bytes - 1u) & ~31u) | 1u;
}

#else

/* A region is a power of two; its eighths can be switched off, so that 5/8 of 1 MiB give 640 KiB. */
static void protect(uint32_t region, uint32_t origin, uint32_t bytes, int writable)
{
    uint32_t log2 = 8, eighth, used;
    while (log2 < 31 && ((uint32_t)1 << log2) < bytes) log2++;
    eighth = ((uint32_t)1 << log2) / 8;
    used = (bytes + eighth - 1) / eighth;
    MPU_RNR = region;
    MPU_RBAR = origin;
    MPU_RASR = (writable ? 1u << 28 | 3u << 24 : 6u << 24) | 1u << 17 | ((0xFFu << used) & 0xFFu) << 8 | (log2 - 1) << 1 | 1u;
}

#endif

/* The emulated machines have more RAM than the board and no flash that refuses to be written. */
void tc_machine_open(void)
{
#if __ARM_ARCH >= 7
    CCR |= 1u << 4; /* a division by zero faults */
#endif
    if ((MPU_TYPE >> 8 & 0xFFu) < 2) return;
#if __ARM_ARCH >= 8
    MPU_MAIR0 = 0xFF; /* normal memory, write-back */
#endif
    protect(0, TC_FLASH_ORIGIN, TC_FLASH_BYTES, 0);
    protect(1, TC_RAM_ORIGIN, TC_RAM_BYTES, 1);
    MPU_CTRL = 1;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

/* frame: r0-r3, r12, lr, pc, xpsr as the core pushed them; not readable after a stack overflow. */
void tc_machine_fault(const uint32_t *frame, uint32_t exc_return)
{
    uint32_t words[TC_FAULT_WORDS] = {0};
    uint32_t number;
    __asm__ volatile("mrs %0, ipsr" : "=r"(number));
    words[0] = number;
    words[1] = exc_return;
    words[2] = (uint32_t)(uintptr_t)frame;
    if (frame >= tc_stack_bottom && frame + 8 <= tc_stack_top) {
        words[3] = frame[6];
        words[4] = frame[5];
    } else {
        words[3] = TC_NOT_MEASURED;
        words[4] = TC_NOT_MEASURED;
    }
#if __ARM_ARCH >= 7
    words[5] = CFSR;
    words[6] = HFSR;
    words[7] = MMFAR;
    words[8] = BFAR;
#endif
    tc_fault(words);
}
