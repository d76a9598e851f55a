/* SPDX-License-Identifier: 0BSD */
/* Cortex-M: the memory protection unit, which makes every access outside the board's flash and RAM (and every
 * write to flash) a fault, and the report of faults. */
#include "board_setup.h"
#include "port.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define AIRCR REGISTER(0xE000ED0C)
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

#ifndef TC_WITHOUT_PROTECTION

enum { FLASH, RAM, SLOW, CODE, PERIPHERALS }; /* regions; the last one is device memory */
enum { READ, WRITTEN, EXECUTED }; /* read and executed; read and written; all three */

#if __ARM_ARCH >= 8

static void protect(uint32_t region, uint32_t origin, uint32_t bytes, int use)
{
    MPU_RNR = region;
    MPU_RBAR = origin | (use == READ ? 4u : use == WRITTEN ? 1u : 0u); /* not shared; AP: read and write, or read only; XN */
    MPU_RASR = ((origin + bytes - 1u) & ~31u) | (region == PERIPHERALS ? 1u << 1 : 0u) | 1u;
}

#else

/* A region is a power of two; its eighths can be switched off, so that 5/8 of 1 MiB give 640 KiB. */
static void protect(uint32_t region, uint32_t origin, uint32_t bytes, int use)
{
    uint32_t log2 = 8, eighth, used;
    while (log2 < 31 && ((uint32_t)1 << log2) < bytes) log2++;
    eighth = ((uint32_t)1 << log2) / 8;
    used = (bytes + eighth - 1) / eighth;
    MPU_RNR = region;
    MPU_RBAR = origin;
    MPU_RASR = (use == READ ? 6u << 24 : 3u << 24) | (use == WRITTEN ? 1u << 28 : 0u) | (region == PERIPHERALS ? 1u << 16 : 1u << 17) |
               ((0xFFu << used) & 0xFFu) << 8 | (log2 - 1) << 1 | 1u;
}

#endif

#endif

#ifdef TC_CACHES

#define REGISTER_ICIALLU REGISTER(0xE000EF50)
#define REGISTER_DCISW REGISTER(0xE000EF60)
#define REGISTER_CCSIDR REGISTER(0xE000ED80)
#define REGISTER_CSSELR REGISTER(0xE000ED84)

/* Both caches of a Cortex-M7, emptied first (Armv7-M Architecture Reference Manual, B2.2). Lines have 32 bytes. */
static void caches_on(void)
{
    uint32_t size, sets, ways, way_shift = 32;
    REGISTER_CSSELR = 0;
    __asm__ volatile("dsb" ::: "memory");
    size = REGISTER_CCSIDR;
    sets = size >> 13 & 0x7FFFu;
    ways = size >> 3 & 0x3FFu;
    for (uint32_t w = ways; w != 0; w >>= 1) way_shift--;
    for (uint32_t set = 0; set <= sets; set++)
        for (uint32_t way = 0; way <= ways; way++) REGISTER_DCISW = (way_shift < 32 ? way << way_shift : 0) | set << 5;
    REGISTER_ICIALLU = 0;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    CCR |= 3u << 16;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

#endif

/* The emulated machines have more RAM than the board and no flash that refuses to be written. */
void tc_machine_open(void)
{
#if __ARM_ARCH >= 7
    CCR |= 1u << 4; /* a division by zero faults */
#ifdef __ARM_FEATURE_MVE
    CCR |= 3u << 18; /* low-overhead loops, which are off after a reset, and branch prediction */
#endif
#endif
#ifdef TC_PERIPHERALS
    tc_board_setup(); /* which may read what the factory wrote, outside of what is allowed later */
#endif
#ifdef TC_CACHES
    caches_on();
#endif
#ifndef TC_WITHOUT_PROTECTION
    if ((MPU_TYPE >> 8 & 0xFFu) < 2) return;
#if __ARM_ARCH >= 8
    MPU_MAIR0 = 0x00FF; /* 0: normal memory, write-back; 1: device memory */
#endif
    protect(FLASH, TC_FLASH_ORIGIN, TC_FLASH_BYTES, READ);
#if defined(TC_RAM_CODE) && !defined(TC_CODE_ORIGIN)
    protect(RAM, TC_RAM_ORIGIN, TC_RAM_BYTES, EXECUTED);
#else
    protect(RAM, TC_RAM_ORIGIN, TC_RAM_BYTES, WRITTEN);
#endif
#ifdef TC_SLOW_ORIGIN
    protect(SLOW, TC_SLOW_ORIGIN, TC_SLOW_BYTES, WRITTEN);
#endif
#ifdef TC_CODE_ORIGIN
    protect(CODE, TC_CODE_ORIGIN, TC_CODE_BYTES, READ); /* its code has been copied by now */
#endif
#ifdef TC_PERIPHERALS
    protect(PERIPHERALS, 0x40000000u, 0x20000000u, WRITTEN);
#endif
    MPU_CTRL = 1;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
}

void tc_machine_reset(void)
{
    AIRCR = 0x05FA0004u; /* SYSRESETREQ with its key */
    for (;;) {
    }
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
