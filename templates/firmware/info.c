/* SPDX-License-Identifier: 0BSD */
/* What the harness says of its model, for the host: sent in INFO frames, and read from the ELF file so that inputs can
 * be checked before anything runs. */
#include "model_glue.h"
#include "port.h"

#ifdef TC_DUMP_STEPS
#define INFO_FLAGS (1u | TC_STATE_FLAG)
#else
#define INFO_FLAGS TC_STATE_FLAG
#endif

const uint32_t tc_firmware_info[6 + TC_INPUT_COUNT + TC_OUTPUT_COUNT] = {
    INFO_FLAGS, TC_ARENA_BYTES, TC_ARENA_ALIGN, TC_INPUT_COUNT, TC_OUTPUT_COUNT, TC_STEP_COUNT,
    TC_INPUT_BYTES, TC_OUTPUT_BYTES,
};
