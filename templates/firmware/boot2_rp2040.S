/* SPDX-License-Identifier: 0BSD */
/* Second stage bootloader of the RP2040: the boot ROM copies these bytes to RAM and calls them. They set up the serial
 * flash for execution in place with the plain read command 0x03, which every flash has, at a quarter of the clock, and
 * start the firmware behind them. Registers: RP2040 data sheet, 4.10.13. Position-independent. */
    .file "boot2_rp2040.S"    /* its symbol, which would be a random name */
    .syntax unified
    .cpu cortex-m0plus
    .thumb
    .section .boot2, "ax"

#define SSI 0x18000000
#define CTRLR0 0x00     /* 31 << 16: frames of 32 bits; 3 << 8: send a command, then receive */
#define CTRLR1 0x04
#define SSIENR 0x08
#define BAUDR 0x14
#define SPI_CTRLR0 0xF4 /* 3 << 24: command; 2 << 8: it has 8 bits; 6 << 2: address of 6 * 4 bits */
#define VTOR 0xE000ED08

    ldr     r3, =SSI
    movs    r1, #0
    str     r1, [r3, #SSIENR]
    movs    r1, #4
    str     r1, [r3, #BAUDR]
    ldr     r1, =(31 << 16) | (3 << 8)
    str     r1, [r3, #CTRLR0]
    movs    r1, #0
    str     r1, [r3, #CTRLR1]
    ldr     r1, =(3 << 24) | (2 << 8) | (6 << 2)
    ldr     r0, =SSI + SPI_CTRLR0
    str     r1, [r0]
    movs    r1, #1
    str     r1, [r3, #SSIENR]

    ldr     r0, =TC_FLASH_ORIGIN + 256
    ldr     r1, =VTOR
    str     r0, [r1]
    ldmia   r0!, {r1, r2}
    msr     msp, r1
    bx      r2
    .pool
