/* SPDX-License-Identifier: 0BSD */
/* What the program needs of where it runs: host.c, board.c. */
#ifndef PORT_H
#define PORT_H

#include <stdint.h>

/* The next n bytes of the recording. Returns how many there were; fewer at its end. */
int32_t port_read(uint8_t *to, int32_t n);

/* Prints a text that ends with 0. */
void port_say(const char *text);

/* Streams the recording to the model and says each word with its time. Returns 0, or 1 for a recording that does not
 * fit, and says why. */
int recording_run(void);

#endif
