/* SPDX-License-Identifier: 0BSD */
/* Control registers of RV32. The firmware is compiled for RV32IMC; only what stands in these macros reaches them. */
#ifndef TC_CSR_RISCV_H
#define TC_CSR_RISCV_H

#include <stdint.h>

#define TC_ZICSR(text) ".option push\n\t.option arch, +zicsr\n\t" text "\n\t.option pop"
#define TC_READ_CSR(name, value) __asm__ volatile(TC_ZICSR("csrr %0, " name) : "=r"(value))
#define TC_WRITE_CSR(name, value) __asm__ volatile(TC_ZICSR("csrw " name ", %0") : : "r"((uint32_t)(value)) : "memory")

#endif
