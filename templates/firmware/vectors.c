/* SPDX-License-Identifier: 0BSD */
/* Firmware that needs nobody: runs the model on inputs that it carries, and prints what came out as lines of text. An
 * emulator's test script compares them (templates/renode/). No line has a "=": Renode's keywords would split it there. */
#include "port.h"
#include "tc_model.h"
#include "text.h"
#include "timer.h"
#include "vectors.h"

enum { LINE_BYTES = 32 };

static void put_field(const char *name, uint32_t value)
{
    tc_put_text(name);
    tc_put_number(value);
}

static void put_outputs(const void *arena, uint32_t inference)
{
    for (uint32_t i = 0; i < tc_model.outputs; i++) {
        const uint8_t *bytes = tc_output(arena, i);
        for (uint32_t at = 0; at < tc_model.output_bytes[i]; at += LINE_BYTES) {
            uint32_t left = tc_model.output_bytes[i] - at;
            put_field("inference ", inference);
            put_field(" output ", i);
            put_field(" at ", at);
            tc_put_text(": ");
            tc_put_hex(bytes + at, left < LINE_BYTES ? left : LINE_BYTES);
            tc_put_text("\r\n");
        }
    }
}

static void fill(uint8_t *p, uint32_t bytes, uint8_t value)
{
    for (uint32_t i = 0; i < bytes; i++) p[i] = value;
}

static int holds(const uint8_t *p, uint32_t bytes, uint8_t value)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (p[i] != value) return 0;
    return 1;
}

void tc_fault(const uint32_t words[TC_FAULT_WORDS])
{
    static const char digit[] = "0123456789abcdef";
    tc_put_text("HARDFAULT pc ");
    for (int shift = 28; shift >= 0; shift -= 4) tc_port_write(&digit[words[3] >> shift & 15], 1);
    tc_put_text("\r\n");
    tc_port_exit(3);
}

static void run(uint8_t *arena, uint32_t inference)
{
    const uint8_t *data = tc_test_inputs[inference];
    uint8_t noise = (uint8_t)(0xA5u + inference);
    tc_measured_t measured = {TC_NOT_MEASURED, TC_CYCLES_NOT_MEASURED};
    int status;
    fill(arena - TC_GUARD_BYTES, TC_GUARD_BYTES + tc_model.state_offset, noise);
    fill(arena + tc_model.arena_bytes, TC_GUARD_BYTES, noise);
    for (uint32_t i = 0; i < tc_model.inputs; i++) {
        uint8_t *to = tc_input(arena, i);
        for (uint32_t at = 0; at < tc_model.input_bytes[i]; at++) to[at] = *data++;
    }
    status = tc_port_run(arena, &measured);
    put_field("inference ", inference);
    put_field(" status ", (uint32_t)status);
    tc_put_text(holds(arena - TC_GUARD_BYTES, TC_GUARD_BYTES, noise) &&
                     holds(arena + tc_model.arena_bytes, TC_GUARD_BYTES, noise)
                 ? " guards intact\r\n"
                 : " guards damaged\r\n");
    put_outputs(arena, inference);
    put_field("inference ", inference);
    put_field(" stack ", measured.stack_bytes);
    put_field(" ticks ", (uint32_t)measured.cycles);
    tc_put_text("\r\n");
}

int main(void)
{
    int guarded;
    uint8_t *arena;
    tc_port_open();
    put_field("vectors ", TC_VECTOR_COUNT);
    put_field(" arena ", tc_firmware_info[1]);
    tc_put_text("\r\n");
    arena = tc_port_arena(&guarded);
    tc_model_reset(arena);
    for (uint32_t i = 0; i < TC_VECTOR_COUNT; i++) run(arena, i);
    tc_put_text("all done\r\n");
    tc_port_exit(0);
    return 0;
}
