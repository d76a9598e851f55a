/* SPDX-License-Identifier: 0BSD */
/* What the boot ROM of an ESP32-C3 or C6 looks for at the start of the flash, where it finds no image with a header:
 * direct boot. It maps the flash and jumps behind these words. github.com/espressif/esp32c3-direct-boot-example */
    .file "boot_esp32.S"
    .section .boot2, "a"
    .balign 4
    .word   0xAEDB041D
    .word   0xAEDB041D
