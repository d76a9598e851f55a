/* SPDX-License-Identifier: 0BSD */
/* What the firmware does on the board before it talks: clocks, pins. Generated from [setup] of the board's file. */
#ifndef TC_BOARD_SETUP_H
#define TC_BOARD_SETUP_H

void tc_board_setup(void);

#endif
