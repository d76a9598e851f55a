/* SPDX-License-Identifier: 0BSD */
/* What the harness knows of the model that is linked. tc_model.c, generated, says it of one library: nothing else of
 * main.c and most ports depends on the library, so one object of each serves all libraries. */
#ifndef TC_MODEL_H
#define TC_MODEL_H

#include <stdint.h>

typedef struct {
    uint32_t number, offset, bytes; /* arena bytes that the step writes */
} tc_step_t;

typedef struct {
    uint32_t arena_bytes, arena_align;
    uint32_t state_offset; /* of what lasts from run to run, at the arena's end; arena_bytes where nothing does */
    uint32_t inputs, outputs;
    const uint32_t *input_bytes, *output_bytes; /* of each */
    uint8_t *slow;                              /* the arena's part in slower RAM; 0: it has none */
    uint32_t slow_bytes, slow_from;             /* offsets of steps from slow_from on count in it */
    const tc_step_t *steps;                     /* with TC_DUMP_STEPS */
    uint32_t step_count;
} tc_model_t;

extern const tc_model_t tc_model;

/* For the host, which also reads it from the ELF file: flags, arena bytes and alignment, numbers of inputs, outputs and
 * steps, bytes of each input, of each output. */
extern const uint32_t tc_firmware_info[];

void *tc_input(void *arena, uint32_t index);
const void *tc_output(const void *arena, uint32_t index);
void tc_model_reset(void *arena); /* of a model that remembers nothing: does nothing */
int tc_model_run(void *arena);
const char *tc_model_version(void);

#endif
