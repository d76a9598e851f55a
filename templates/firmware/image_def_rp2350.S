/* SPDX-License-Identifier: 0BSD */
/* What the boot ROM of an RP2350 looks for in the first 4 KiB of the flash: a block that says that this is a program for
 * its Arm cores, secure, or for its RISC-V cores. The program begins at the start of the flash: by the vector table, or
 * with the first instruction. Data sheet, 5.9. */
    .file "image_def_rp2350.S"
    .section .image_def, "a"
    .balign 4
    .word   0xFFFFDED3        /* begin */
    .byte   0x42, 1           /* item: type of image, one word */
#ifdef __riscv
    .hword  0x1101            /* a program; RISC-V; RP2350 */
#else
    .hword  0x1021            /* a program; secure; Arm; RP2350 */
#endif
    .byte   0xFF              /* last item */
    .hword  1                 /* words of items before it */
    .byte   0
    .word   0                 /* the next block is this one: there is no other */
    .word   0xAB123579        /* end */
