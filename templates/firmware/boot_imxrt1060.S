/* SPDX-License-Identifier: 0BSD */
/* What the boot ROM of an i.MX RT1060 looks for in the first 8 KiB of the flash (IMXRT1060RM, 9.6.3 and 9.7): how FlexSPI
 * reads the flash, 8 MiB with four data lines at 100 MHz, and which vector table the program begins by. */
    .file "boot_imxrt1060.S"
    .syntax unified
    .thumb

    .equ CMD, 0x01 << 10
    .equ ADDRESS, 0x02 << 10
    .equ MODE, 0x07 << 10
    .equ READ, 0x09 << 10
    .equ DUMMY, 0x0C << 10
    .equ FOUR_LINES, 2 << 8

    .section .boot2, "ax"
boot:
    .word   0x42464346              /* FCFB: configuration of FlexSPI */
    .word   0x56010000              /* its version, 1.0.0 */
    .org    0x0C
    .byte   1, 1, 2, 0              /* sampled by DQS looped back at its pad; hold and set-up of chip select; no columns */
    .org    0x44
    .byte   1, 4, 6, 0              /* NOR flash with four lines, at 100 MHz */
    .org    0x50
    .word   8 << 20                 /* bytes of the flash */
    .org    0x80                    /* fast read, quad: the command on one line; the rest on four: address, mode, 4 clocks, data */
    .hword  CMD | 0xEB, ADDRESS | FOUR_LINES | 24
    .hword  MODE | FOUR_LINES | 0xFF, DUMMY | FOUR_LINES | 4
    .hword  READ | FOUR_LINES | 4, 0
    .org    0x1C0
    .word   256, 4096, 1            /* bytes of a page and of a sector; commands at 30 MHz */
    .org    0x1D0
    .word   64 << 10                /* bytes of a block */

    .org    0x1000
table:
    .word   0x412000D1              /* image vector table, 32 bytes */
    .word   first_vectors, 0, 0
    .word   image, table, 0, 0
image:
    .word   boot, 8 << 20, 0        /* where the image begins, its bytes at most, no plug-in */

    .balign 128
first_vectors:
    .word   tc_stack_top, first_steps

/* Before the RAM is used. FlexRAM has 16 banks of 32 KiB, by fuses 128 KiB of ITCM, 128 of DTCM and 256 of OCRAM. */
    .type first_steps, %function
    .thumb_func
first_steps:
#if TC_RAM_ORIGIN == 0x20000000u
#if TC_RAM_BYTES != 393216u
#error "four banks are ITCM and twelve DTCM"
#endif
    ldr     r0, =0x400AC000         /* IOMUXC_GPR */
    ldr     r1, =0xAAAAAAFF
    str     r1, [r0, #0x44]         /* GPR17: a bank is 2 DTCM, 3 ITCM */
    ldr     r1, =0x00AA0000
    str     r1, [r0, #0x38]         /* GPR14: room for 512 KiB of each */
    ldr     r1, =0x00200007
    str     r1, [r0, #0x40]         /* GPR16: banks by GPR17, both memories on */
    dsb
    isb
#endif
    ldr     r0, =Reset_Handler
    bx      r0
    .size first_steps, . - first_steps
    .ltorg
    .org    0x2000
