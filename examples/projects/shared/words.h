/* SPDX-License-Identifier: 0BSD */
/* The application that all projects in C share: which words does the model hear in the clips of clips.h? */
#ifndef WORDS_H
#define WORDS_H

#include <kws.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Prints a text that ends with 0, where the application runs: by printf, a serial port, a debugger. */
typedef void (*words_say_t)(const char *text);

/* Runs the model on every clip, and says of each which word it heard and whether that was the one said. Returns how
 * many clips were heard wrong. Needs no libc. */
int words_run(kws_arena_t *arena, words_say_t say);

#ifdef __cplusplus
}
#endif

#endif
