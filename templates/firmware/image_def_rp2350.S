/* SPDX-License-Identifier: 0BSD */
/* What the boot ROM of an RP2350 looks for in the first 4 KiB of the flash: a block that says that this is a program for
 * its Arm cores, secure. The program begins by the vector table at the start of the flash. Data sheet, 5.9. */
    .file "image_def_rp2350.S"
    .section .image_def, "a"
    .balign 4
    .word   0xFFFFDED3        /* begin */
    .byte   0x42, 1           /* item: type of image, one word */
    .hword  0x1021            /* a program; secure; Arm; RP2350 */
    .byte   0xFF              /* last item */
    .hword  1                 /* words of items before it */
    .byte   0
    .word   0                 /* the next block is this one: there is no other */
    .word   0xAB123579        /* end */
