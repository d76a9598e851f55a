/* SPDX-License-Identifier: 0BSD */
/* RV32: physical memory protection, which makes every access outside the board's flash and RAM (and every write to
 * flash) a fault, and the report of faults. */
#include "csr_riscv.h"
#include "board_setup.h"
#include "port.h"

#ifndef TC_WITHOUT_PROTECTION

/* An entry of pmpcfg. Locked, so that it holds in machine mode: the range from the address before to this one, or a
 * page, whose address has the low bits 0 1 1 ... 1. */
enum { READ = 1, WRITE = 2, EXECUTE = 4, LOCKED_RANGE = 0x88, LOCKED_PAGE = 0x98 };
enum { PAGE_BYTES = 4096 };

#endif

enum { OVERFLOW_BYTES = 4096 }; /* an access so near below the stack is its overflow */

extern const uint32_t tc_stack_bottom[], tc_stack_top[];

void Reset_Handler(void) __attribute__((noreturn));
void tc_machine_open(void);
void tc_machine_fault(uint32_t sp, uint32_t return_address);

/* The first entry that fits counts: those that allow something, then one that refuses the rest. A range is from the
 * address of the entry before it, which itself is off, to its own. */
void tc_machine_open(void)
{
#ifdef TC_PERIPHERALS
    tc_board_setup();
#endif
#ifndef TC_WITHOUT_PROTECTION
    uint32_t page = 0, slow = 0, constants = 0;
#ifdef TC_PERIPHERALS
    page = LOCKED_PAGE | READ | WRITE;
    TC_WRITE_CSR("pmpaddr0", (TC_UART_BASE & ~(PAGE_BYTES - 1u)) >> 2 | (PAGE_BYTES / 8 - 1u));
#endif
    TC_WRITE_CSR("pmpaddr1", TC_FLASH_ORIGIN >> 2);
    TC_WRITE_CSR("pmpaddr2", (TC_FLASH_ORIGIN + TC_FLASH_BYTES) >> 2);
    TC_WRITE_CSR("pmpaddr3", TC_RAM_ORIGIN >> 2);
    TC_WRITE_CSR("pmpaddr4", (TC_RAM_ORIGIN + TC_RAM_BYTES) >> 2);
#ifdef TC_SLOW_ORIGIN
    slow = LOCKED_RANGE | READ | WRITE;
    TC_WRITE_CSR("pmpaddr5", TC_SLOW_ORIGIN >> 2);
    TC_WRITE_CSR("pmpaddr6", (TC_SLOW_ORIGIN + TC_SLOW_BYTES) >> 2);
#endif
#ifdef TC_CONSTANTS_ORIGIN
    constants = LOCKED_RANGE | READ;
    TC_WRITE_CSR("pmpaddr7", TC_CONSTANTS_ORIGIN >> 2);
    TC_WRITE_CSR("pmpaddr8", (TC_CONSTANTS_ORIGIN + TC_FLASH_BYTES) >> 2);
#endif
    TC_WRITE_CSR("pmpaddr9", 0xFFFFFFFFu); /* everything */
    TC_WRITE_CSR("pmpcfg0", page | (uint32_t)(LOCKED_RANGE | READ | EXECUTE) << 16);
    TC_WRITE_CSR("pmpcfg1", (uint32_t)(LOCKED_RANGE | READ | WRITE) | slow << 16);
    TC_WRITE_CSR("pmpcfg2", constants | (uint32_t)LOCKED_PAGE << 8);
#endif
}

/* RISC-V has no reset that all cores share: the firmware begins again. */
void tc_machine_reset(void)
{
    Reset_Handler();
}

/* EXC_RETURN is 0, which it is on no Arm core; the exception is mcause, the address of a refused access mtval. */
void tc_machine_fault(uint32_t sp, uint32_t return_address)
{
    uint32_t words[TC_FAULT_WORDS] = {0};
    uint32_t bottom = (uint32_t)(uintptr_t)tc_stack_bottom;
    TC_READ_CSR("mcause", words[0]);
    words[2] = sp;
    TC_READ_CSR("mepc", words[3]);
    words[4] = return_address;
    TC_READ_CSR("mtval", words[7]);
    if (words[7] < bottom && words[7] >= bottom - OVERFLOW_BYTES && sp < bottom) words[3] = words[4] = TC_NOT_MEASURED;
    tc_fault(words);
}
