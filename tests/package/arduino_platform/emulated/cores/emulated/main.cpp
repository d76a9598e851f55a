/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up for QEMU's mps2-an386; prints by semihosting, and ends at the first delay. */
#include "Arduino.h"

extern "C" uint32_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_top[];

static uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void end(uint32_t status)
{
    const uint32_t ended[2] = {0x20026u, status};
    semihosting(0x20, ended);
}

Printer Serial;

void Printer::begin(unsigned long) {}

void Printer::print(const char *text)
{
    semihosting(4, text);
}

void Printer::print(unsigned long number)
{
    char digits[12] = {0};
    char *at = digits + sizeof digits - 1;
    do {
        *--at = static_cast<char>('0' + number % 10);
        number /= 10;
    } while (number != 0);
    print(at);
}

void Printer::println(const char *text)
{
    print(text);
    print("\n");
}

unsigned long micros()
{
    return 10000ul * semihosting(0x10, nullptr); /* SYS_CLOCK: hundredths of a second */
}

void delay(unsigned long)
{
    end(0);
}

extern "C" __attribute__((used)) void Reset_Handler()
{
    *reinterpret_cast<volatile uint32_t *>(0xE000ED88u) |= 0xFu << 20; /* the FPU */
    __asm volatile("dsb\n isb" ::: "memory");
    const uint32_t *from = data_load;
    for (volatile uint32_t *to = data_begin; to < data_end; to++) {
        *to = *from++;
    }
    for (volatile uint32_t *to = bss_begin; to < bss_end; to++) {
        *to = 0;
    }
    setup();
    for (;;) {
        loop();
    }
}

static void fault()
{
    end(1);
    for (;;) {
    }
}

extern "C" {
__attribute__((section(".vectors"), used)) void *const vectors[16] = {
    stack_top, reinterpret_cast<void *>(Reset_Handler), reinterpret_cast<void *>(fault), reinterpret_cast<void *>(fault),
    reinterpret_cast<void *>(fault), reinterpret_cast<void *>(fault), reinterpret_cast<void *>(fault)};
}
