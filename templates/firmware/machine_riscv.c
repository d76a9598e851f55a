/* RV32: physical memory protection, which makes every access outside the board's flash and RAM (and every write to
 * flash) a fault, and the report of faults. */
#include "port.h"

#define ZICSR(text) ".option push\n\t.option arch, +zicsr\n\t" text "\n\t.option pop"
#define READ_CSR(name, value) __asm__ volatile(ZICSR("csrr %0, " name) : "=r"(value))
#define WRITE_CSR(name, value) __asm__ volatile(ZICSR("csrw " name ", %0") : : "r"((uint32_t)(value)) : "memory")

/* An entry of pmpcfg: locked, so that it holds in machine mode; the range from the address before to this one. */
enum { READ = 1, WRITE = 2, EXECUTE = 4, LOCKED_RANGE = 0x88 };
enum { OVERFLOW_BYTES = 4096 }; /* an access so near below the stack is its overflow */

extern const uint32_t tc_stack_bottom[], tc_stack_top[];

void tc_machine_open(void);
void tc_machine_fault(uint32_t sp, uint32_t return_address);

void tc_machine_open(void)
{
    WRITE_CSR("pmpaddr0", TC_FLASH_ORIGIN >> 2);
    WRITE_CSR("pmpaddr1", (TC_FLASH_ORIGIN + TC_FLASH_BYTES) >> 2);
    WRITE_CSR("pmpaddr2", TC_RAM_ORIGIN >> 2);
    WRITE_CSR("pmpaddr3", (TC_RAM_ORIGIN + TC_RAM_BYTES) >> 2);
    WRITE_CSR("pmpaddr4", 0xFFFFFFFFu);
    WRITE_CSR("pmpcfg1", LOCKED_RANGE);
    WRITE_CSR("pmpcfg0", (uint32_t)LOCKED_RANGE | (uint32_t)(LOCKED_RANGE | READ | EXECUTE) << 8 |
                             (uint32_t)LOCKED_RANGE << 16 | (uint32_t)(LOCKED_RANGE | READ | WRITE) << 24);
}

/* EXC_RETURN is 0, which it is on no Arm core; the exception is mcause, the address of a refused access mtval. */
void tc_machine_fault(uint32_t sp, uint32_t return_address)
{
    uint32_t words[TC_FAULT_WORDS] = {0};
    uint32_t bottom = (uint32_t)(uintptr_t)tc_stack_bottom;
    READ_CSR("mcause", words[0]);
    words[2] = sp;
    READ_CSR("mepc", words[3]);
    words[4] = return_address;
    READ_CSR("mtval", words[7]);
    if (words[7] < bottom && words[7] >= bottom - OVERFLOW_BYTES && sp < bottom) words[3] = words[4] = TC_NOT_MEASURED;
    tc_fault(words);
}
