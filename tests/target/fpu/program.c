/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a library on mps2-an386 beside interrupts whose handler changes registers of the FPU, and prints what came of it:
 * a name, m_run's status, whether there were interrupts, and a sum of the output. */
#include <stdint.h>

#include "m.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

extern uint32_t stack_top[];
static m_arena_t arena;
static volatile uint32_t ticks;
static char said[64];
static int is_careless;

static void semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void say(const char *what, uint32_t status, uint32_t hash)
{
    uint32_t values[3] = {status, ticks > 10u, hash};
    int at = 0;

    while (*what != 0) said[at++] = *what++;
    for (int value = 0; value < 3; value++) {
        said[at++] = ' ';
        for (int shift = 28; shift >= 0; shift -= 4) said[at++] = "0123456789abcdef"[values[value] >> shift & 15u];
    }
    said[at++] = '\n';
    said[at] = 0;
    semihosting(4, said);
}

/* A handler that computes in floats: it keeps s16 to s31, as a compiler's does. */
static void tick(void)
{
    ticks++;
    __asm__ volatile("vmov.f32 s0, #1.0\n .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
                     "vmov.f32 s\\n, s0\n .endr");
    if (is_careless) { /* as a switch to a thread whose s16 to s31 nobody keeps */
        __asm__ volatile(".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
                         "vmov.f32 s\\n, s0\n .endr");
    }
}

static void run(const char *what, uint32_t interrupts)
{
    uint32_t hash = 0;
    int status;

    for (int32_t i = 0; i < M_INPUT_0_SIZE; i++) m_input_0(&arena)[i] = (int8_t)(i * 37);
    ticks = 0;
    REGISTER(0xE000E018) = 0;
    REGISTER(0xE000E010) = interrupts;
    status = m_run(&arena);
    REGISTER(0xE000E010) = 0;
    for (int32_t i = 0; i < M_OUTPUT_0_BYTES; i++) hash = hash * 31u + (uint8_t)m_output_0(&arena)[i];
    say(what, (uint32_t)status, status == 0 ? hash : 0);
}

static void reset(void)
{
    uint32_t end[2] = {0x20026, 0};

    REGISTER(0xE000E014) = 49;
#ifdef TC_CHECK_FPU
    run("off", 0);
#endif
    REGISTER(0xE000ED88) |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    run("alone", 0);
    run("lazy", 7);
    is_careless = 1;
    run("careless", 7);
    is_careless = 0;
    REGISTER(0xE000EF34) = 1u << 31; /* ASPEN alone: at once, not lazily */
    run("eager", 7);
    REGISTER(0xE000EF34) = 0;
    __asm__ volatile("mov r0, #0\n msr control, r0\n isb" ::: "r0", "memory"); /* FPCA: no state is to be kept so far */
    run("unstacked", 7);
    semihosting(0x20, end);
}

static void fault(void)
{
    uint32_t end[2] = {0x20023, 0};

    semihosting(0x20, end);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, tick};
