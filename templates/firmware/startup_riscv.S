/* SPDX-License-Identifier: 0BSD */
/* Start-up for RV32: memory set-up, traps, semihosting, and the measured call of the model. TC_MODEL_RUN is the
 * model's run function. The C code is RV32IMC; only this file and machine_riscv.c reach control registers. */
    .file "startup_riscv.S"    /* its symbol, which would be a random name */
    .option arch, +zicsr

    .section .vectors, "ax"
    .globl tc_vector_table
tc_vector_table:
    j       Reset_Handler       /* execution begins at the first byte of the memory */

    .text
    .balign 4
    .globl Reset_Handler
    .type Reset_Handler, @function
Reset_Handler:
    csrci   mstatus, 1 << 3     /* no interrupts, which a boot ROM may have left on */
    la      sp, tc_stack_top
    la      t0, tc_fault_entry
    csrw    mtvec, t0
#if defined(__riscv_vector) || defined(TC_ZVE32X)
    li      t0, 1 << 9          /* mstatus.VS: vectors are on, in their first state */
    csrs    mstatus, t0
#endif
    la      t0, tc_data_load
    la      t1, tc_data_start
    la      t2, tc_data_end
1:  bgeu    t1, t2, 2f
    lw      t3, 0(t0)
    sw      t3, 0(t1)
    addi    t0, t0, 4
    addi    t1, t1, 4
    j       1b
2:  la      t1, tc_bss_start
    la      t2, tc_bss_end
3:  bgeu    t1, t2, 4f
    sw      zero, 0(t1)
    addi    t1, t1, 4
    j       3b
4:  call    tc_machine_open
    call    main
5:  j       5b
    .size Reset_Handler, . - Reset_Handler

/* The stack may be what is broken: go on at its top, which nobody needs any more. mtvec wants alignment: to 4 bytes, and
 * to 256 in cores of Espressif, which have the table of interrupts there, with exceptions at its first entry. */
    .balign 256
    .type tc_fault_entry, @function
tc_fault_entry:
    mv      a0, sp
    mv      a1, ra
    la      sp, tc_stack_top
    call    tc_machine_fault
6:  j       6b
    .size tc_fault_entry, . - tc_fault_entry

/* int tc_semihosting(uint32_t operation, const void *arguments)
 * Three uncompressed instructions in one page mark an ebreak as a semihosting call. */
    .balign 16
    .globl tc_semihosting
    .type tc_semihosting, @function
tc_semihosting:
    .option push
    .option norvc
    slli    zero, zero, 0x1f
    ebreak
    srai    zero, zero, 7
    .option pop
    ret
    .size tc_semihosting, . - tc_semihosting

/* int tc_run_measured(void *arena, uint32_t *stack_bytes)
 *
 * Paints the free stack below sp, calls the model, and looks for the lowest word that changed. Exact to the
 * word, but for a frame whose lowest words are reserved and never written. */
    .globl tc_run_measured
    .type tc_run_measured, @function
tc_run_measured:
    addi    sp, sp, -16
    sw      ra, 12(sp)
    sw      s0, 8(sp)
    mv      s0, a1
    la      t0, tc_stack_bottom
    li      t1, 0x5AC3E197
7:  bgeu    t0, sp, 8f
    sw      t1, 0(t0)
    addi    t0, t0, 4
    j       7b
8:  call    TC_MODEL_RUN
    .globl tc_run_return
tc_run_return:
    la      t0, tc_stack_bottom
    li      t1, 0x5AC3E197
9:  bgeu    t0, sp, 10f
    lw      t2, 0(t0)
    bne     t2, t1, 10f
    addi    t0, t0, 4
    j       9b
10: sub     t0, sp, t0
    sw      t0, 0(s0)
    lw      s0, 8(sp)
    lw      ra, 12(sp)
    addi    sp, sp, 16
    ret
    .size tc_run_measured, . - tc_run_measured
