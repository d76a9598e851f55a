/* SPDX-License-Identifier: 0BSD */
/* Start-up for Armv6-M to Armv8.1-M: vectors, FPU, memory set-up, faults, and the measured call of the
 * model. TC_MODEL_RUN is the model's run function, or one that calls it. */
    .file "startup_cortex_m.S"    /* its symbol, which would be a random name */
    .syntax unified
    .thumb

    .section .vectors, "a"
    .globl tc_vector_table
tc_vector_table:
    .word tc_stack_top
    .word Reset_Handler
    .rept 13
    .word tc_fault_entry
    .endr
    .word tc_systick            /* of timer_cortex_m.c, where that is linked */
    .weak   tc_systick
    .thumb_set tc_systick, tc_fault_entry

    .text
    .balign 4
    .globl Reset_Handler
    .type Reset_Handler, %function
    .thumb_func
Reset_Handler:
#ifdef __ARM_FP
    /* First of all: compilers use FPU and MVE registers even to clear memory. CPACR: full access to CP10 and CP11. */
    ldr     r0, =0xE000ED88
    ldr     r1, [r0]
    orr     r1, r1, #(0xF << 20)
    str     r1, [r0]
    dsb
    isb
#endif
#if __ARM_ARCH >= 7
    /* VTOR: a bootloader, or memory that appears at address 0 too, may have left it elsewhere. */
    ldr     r0, =0xE000ED08
    ldr     r1, =tc_vector_table
    str     r1, [r0]
#endif
    ldr     r0, =tc_data_load
    ldr     r1, =tc_data_start
    ldr     r2, =tc_data_end
    bl      tc_copy_section
    ldr     r0, =tc_code_load
    ldr     r1, =tc_code_start
    ldr     r2, =tc_code_end
    bl      tc_copy_section
    ldr     r1, =tc_bss_start
    ldr     r2, =tc_bss_end
    movs    r3, #0
3:  cmp     r1, r2
    bhs     4f
    str     r3, [r1]
    adds    r1, #4
    b       3b
4:  bl      tc_machine_open
    bl      main
5:  b       5b
    .size Reset_Handler, . - Reset_Handler

/* Words from r0 on to [r1, r2). */
    .type tc_copy_section, %function
    .thumb_func
tc_copy_section:
1:  cmp     r1, r2
    bhs     2f
    ldr     r3, [r0]
    str     r3, [r1]
    adds    r0, #4
    adds    r1, #4
    b       1b
2:  bx      lr
    .size tc_copy_section, . - tc_copy_section

/* The stack may be what is broken: go on at its top, which nobody needs any more. */
    .type tc_fault_entry, %function
    .thumb_func
tc_fault_entry:
    mov     r0, sp
    mov     r1, lr
    ldr     r2, =tc_stack_top
    mov     sp, r2
    bl      tc_machine_fault
6:  b       6b
    .size tc_fault_entry, . - tc_fault_entry

/* int tc_semihosting(uint32_t operation, const void *arguments) */
    .globl tc_semihosting
    .type tc_semihosting, %function
    .thumb_func
tc_semihosting:
    bkpt    0xAB
    bx      lr
    .size tc_semihosting, . - tc_semihosting

/* int tc_run_measured(void *arena, uint32_t *stack_bytes)
 *
 * Paints the free stack below sp, calls the model, and looks for the lowest word that changed. Exact to the
 * word, but for a frame whose lowest words are reserved and never written. */
    .globl tc_run_measured
    .type tc_run_measured, %function
    .thumb_func
tc_run_measured:
    push    {r3-r7, lr}
    mov     r4, r1
    ldr     r5, =tc_stack_bottom
    ldr     r6, =0x5AC3E197
    mov     r7, sp
    mov     r2, r5
7:  cmp     r2, r7
    bhs     8f
    stmia   r2!, {r6}
    b       7b
8:  bl      TC_MODEL_RUN
    .globl tc_run_return
tc_run_return:
    mov     r2, r5
9:  cmp     r2, r7
    bhs     10f
    ldr     r1, [r2]
    cmp     r1, r6
    bne     10f
    adds    r2, #4
    b       9b
10: subs    r7, r7, r2
    str     r7, [r4]
    pop     {r3-r7, pc}
    .size tc_run_measured, . - tc_run_measured
