/* SPDX-License-Identifier: 0BSD */
/* Firmware harness: runs a model's library on inputs that come over a byte stream and sends back its
 * outputs, the state of the arena's guards, and the stack used. docs/firmware-protocol.md describes
 * the frames; tinyc/run/protocol.py is the other end.
 */
#include "port.h"
#include "tc_model.h"

#define PROTOCOL_VERSION 1u

enum { REQUEST_INFO = 1, REQUEST_RUN = 2, REQUEST_END = 3, REQUEST_RESET = 4 };
enum { REPLY_INFO = 0x81, REPLY_RESULT = 0x82, REPLY_STEP = 0x83, REPLY_ERROR = 0x84, REPLY_FAULT = 0x85 };
enum { REPLY_END = 0x86, REPLY_RESET = 0x87 };
enum { ERROR_CRC = 1, ERROR_TYPE = 2, ERROR_LENGTH = 3, ERROR_VERSION = 4 };
enum { INFO_STARTED = 2 }; /* flag: sent unasked */
enum { GUARD_BELOW = 1, GUARD_ABOVE = 2 };

typedef struct {
    uint8_t version, type;
    uint8_t length[4];
} header_t;

static uint32_t inference;

/* --- frames ---------------------------------------------------------------------------------- */

static uint32_t crc_update(uint32_t crc, const void *data, uint32_t bytes)
{
    static const uint32_t nibble[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
    };
    const uint8_t *p = data;
    while (bytes-- > 0) {
        crc ^= *p++;
        crc = (crc >> 4) ^ nibble[crc & 15];
        crc = (crc >> 4) ^ nibble[crc & 15];
    }
    return crc;
}

static void put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t sent_crc, received_crc;

static void send(const void *data, uint32_t bytes)
{
    sent_crc = crc_update(sent_crc, data, bytes);
    if (bytes > 0) tc_port_write(data, bytes);
}

static void send_u32(uint32_t value)
{
    uint8_t b[4];
    put_u32(b, value);
    send(b, 4);
}

static void begin_reply(uint8_t type, uint32_t length)
{
    const uint8_t sync[2] = {'T', 'C'};
    header_t h = {PROTOCOL_VERSION, type, {0}};
    put_u32(h.length, length);
    tc_port_write(sync, 2);
    sent_crc = 0xFFFFFFFFu;
    send(&h, sizeof h);
}

static void end_reply(void)
{
    uint8_t b[4];
    put_u32(b, ~sent_crc);
    tc_port_write(b, 4);
}

/* In pieces of TC_RECEIVE_BYTES: a line without a buffer loses bytes while a checksum is computed over many. */
static int receive(void *data, uint32_t bytes)
{
    uint8_t *p = data;
    while (bytes > 0) {
        uint32_t piece = bytes < TC_RECEIVE_BYTES ? bytes : TC_RECEIVE_BYTES;
        if (!tc_port_read(p, piece)) return 0;
        received_crc = crc_update(received_crc, p, piece);
        p += piece;
        bytes -= piece;
    }
    return 1;
}

/* Skips bytes up to the next sync mark, so that a line with noise finds its way back. */
static int receive_header(header_t *h)
{
    uint8_t previous = 0, byte = 0;
    while (!(previous == 'T' && byte == 'C')) {
        previous = byte;
        if (!tc_port_read(&byte, 1)) return 0;
    }
    received_crc = 0xFFFFFFFFu;
    return receive(h, sizeof *h);
}

static int receive_crc_ok(void)
{
    uint8_t b[4];
    return tc_port_read(b, 4) && get_u32(b) == (uint32_t)~received_crc;
}

static void send_error(uint32_t code, uint32_t detail)
{
    begin_reply(REPLY_ERROR, 8);
    send_u32(code);
    send_u32(detail);
    end_reply();
}

static void send_info(uint32_t flags)
{
    const char *version = tc_model_version();
    uint32_t words = 6 + tc_model.inputs + tc_model.outputs, text = 0;
    while (version[text] != 0) text++;
    begin_reply(REPLY_INFO, words * 4 + text);
    send_u32(tc_firmware_info[0] | flags);
    for (uint32_t i = 1; i < words; i++) send_u32(tc_firmware_info[i]);
    send(version, text);
    end_reply();
}

void tc_fault(const uint32_t words[TC_FAULT_WORDS])
{
    begin_reply(REPLY_FAULT, 4 * (TC_FAULT_WORDS + 1));
    send_u32(inference);
    for (uint32_t i = 0; i < TC_FAULT_WORDS; i++) send_u32(words[i]);
    end_reply();
    tc_port_exit(3);
}

/* --- arena ------------------------------------------------------------------------------------ */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* The arena, but for the inputs in it and what lasts from run to run, and its guards hold a different pattern before every inference, so that a byte
 * that is read before it is written, or written outside, shows. */
static void fill(uint8_t *p, uint32_t bytes, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1u;
    for (uint32_t i = 0; i < bytes; i++) p[i] = (uint8_t)(next_random(&state) >> 11);
}

static int holds(const uint8_t *p, uint32_t bytes, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1u;
    for (uint32_t i = 0; i < bytes; i++) {
        if (p[i] != (uint8_t)(next_random(&state) >> 11)) return 0;
    }
    return 1;
}

#ifdef TC_SLOW_ORIGIN
extern uint8_t tc_slow_below[TC_GUARD_BYTES], tc_slow_above[TC_GUARD_BYTES]; /* firmware.ld */
#endif

/* Where in a block the first input at or behind `from` begins, and *end where it ends; `limit` and `limit` when there is none. */
static uint32_t next_input(uint8_t *arena, const uint8_t *block, uint32_t from, uint32_t limit, uint32_t *end)
{
    uint32_t start = limit;
    *end = limit;
    for (uint32_t i = 0; i < tc_model.inputs; i++) {
        uintptr_t at = (uintptr_t)tc_input(arena, i) - (uintptr_t)block;
        if (at < from || at >= start) continue;
        start = (uint32_t)at;
        *end = start + tc_model.input_bytes[i];
    }
    return start;
}

static void fill_around_inputs(uint8_t *arena, uint8_t *block, uint32_t bytes, uint32_t seed)
{
    uint32_t from = 0, end, start;
    do {
        start = next_input(arena, block, from, bytes, &end);
        fill(block + from, start - from, 4 * (seed + from) + 1);
        from = end;
    } while (from < bytes);
}

static void prepare_arena(uint8_t *arena, int guarded, uint32_t seed)
{
    fill_around_inputs(arena, arena, tc_model.state_offset, seed);
    if (tc_model.slow != NULL) {
        fill_around_inputs(arena, tc_model.slow, tc_model.slow_bytes, ~seed);
#ifdef TC_SLOW_ORIGIN
        fill(tc_slow_below, TC_GUARD_BYTES, 4 * seed + 2);
        fill(tc_slow_above, TC_GUARD_BYTES, 4 * seed + 3);
#endif
    }
    if (!guarded) return;
    fill(arena - TC_GUARD_BYTES, TC_GUARD_BYTES, 4 * seed + 2);
    fill(arena + tc_model.arena_bytes, TC_GUARD_BYTES, 4 * seed + 3);
}

static uint32_t damaged_guards(const uint8_t *arena, int guarded, uint32_t seed)
{
    uint32_t damaged = 0;
#ifdef TC_SLOW_ORIGIN
    if (tc_model.slow != NULL) {
        if (!holds(tc_slow_below, TC_GUARD_BYTES, 4 * seed + 2)) damaged |= GUARD_BELOW;
        if (!holds(tc_slow_above, TC_GUARD_BYTES, 4 * seed + 3)) damaged |= GUARD_ABOVE;
    }
#endif
    if (!guarded) return 0;
    if (!holds(arena - TC_GUARD_BYTES, TC_GUARD_BYTES, 4 * seed + 2)) damaged |= GUARD_BELOW;
    if (!holds(arena + tc_model.arena_bytes, TC_GUARD_BYTES, 4 * seed + 3)) damaged |= GUARD_ABOVE;
    return damaged;
}

/* --- requests --------------------------------------------------------------------------------- */

static uint32_t sum(const uint32_t *values, uint32_t count)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += values[i];
    return total;
}

static void send_result(const uint8_t *arena, int status, uint32_t guards, const tc_measured_t *measured)
{
    begin_reply(REPLY_RESULT, 24 + sum(tc_model.output_bytes, tc_model.outputs));
    send_u32(inference);
    send_u32((uint32_t)status);
    send_u32(guards);
    send_u32(measured->stack_bytes);
    send_u32((uint32_t)measured->cycles);
    send_u32((uint32_t)(measured->cycles >> 32));
    for (uint32_t i = 0; i < tc_model.outputs; i++) send(tc_output(arena, i), tc_model.output_bytes[i]);
    end_reply();
}

static void reset_model(void)
{
    int guarded = 0;
    tc_model_reset(tc_port_arena(&guarded));
}

/* 0 when the stream has ended. */
static int serve_run(uint32_t length)
{
    int guarded = 0;
    uint8_t *arena = tc_port_arena(&guarded);
    tc_measured_t measured = {TC_NOT_MEASURED, TC_CYCLES_NOT_MEASURED};
    uint32_t expected = sum(tc_model.input_bytes, tc_model.inputs);
    int status;
    if (length != expected) {
        send_error(ERROR_LENGTH, expected);
        return 1;
    }
    for (uint32_t i = 0; i < tc_model.inputs; i++) {
        if (!receive(tc_input(arena, i), tc_model.input_bytes[i])) return 0;
    }
    if (!receive_crc_ok()) {
        send_error(ERROR_CRC, inference);
        return 1;
    }
    prepare_arena(arena, guarded, inference);
    status = tc_port_run(arena, &measured);
    send_result(arena, status, damaged_guards(arena, guarded, inference), &measured);
    inference++;
    return 1;
}

#ifdef TC_DUMP_STEPS
static const uint8_t *place_of(const void *arena, uint32_t offset)
{
    if (tc_model.slow != NULL && offset >= tc_model.slow_from) return tc_model.slow + (offset - tc_model.slow_from);
    return (const uint8_t *)arena + offset;
}

void tc_after_step(unsigned step, const void *arena);
void tc_after_step(unsigned step, const void *arena)
{
    for (uint32_t i = 0; i < tc_model.step_count; i++) {
        const tc_step_t *s = &tc_model.steps[i];
        if (s->bytes == 0 || s->number != step) continue;
        begin_reply(REPLY_STEP, 8 + s->bytes);
        send_u32(inference);
        send_u32(step);
        send(place_of(arena, s->offset), s->bytes);
        end_reply();
    }
}

/* One frame per row of a step that runs row by row, in order. */
void tc_after_row(unsigned step, const void *row, uint32_t bytes);
void tc_after_row(unsigned step, const void *row, uint32_t bytes)
{
    begin_reply(REPLY_STEP, 8 + bytes);
    send_u32(inference);
    send_u32(step);
    send(row, bytes);
    end_reply();
}
#endif

/* 0 when there is nothing more to do. */
static int serve(void)
{
    header_t h;
    uint32_t length;
    if (!receive_header(&h)) return 0;
    length = get_u32(h.length);
    if (h.version != PROTOCOL_VERSION) {
        send_error(ERROR_VERSION, PROTOCOL_VERSION);
        return 1;
    }
    if (h.type == REQUEST_RUN) return serve_run(length);
    if (length != 0) {
        send_error(ERROR_LENGTH, 0);
    } else if (!receive_crc_ok()) {
        send_error(ERROR_CRC, inference);
    } else if (h.type == REQUEST_INFO) {
        send_info(0);
    } else if (h.type == REQUEST_RESET) {
        reset_model();
        begin_reply(REPLY_RESET, 0);
        end_reply();
    } else if (h.type == REQUEST_END) {
        begin_reply(REPLY_END, 0);
        end_reply();
        return 0;
    } else {
        send_error(ERROR_TYPE, h.type);
    }
    return 1;
}

int main(void)
{
    tc_port_open();
    reset_model();
    send_info(INFO_STARTED);
    while (serve()) {
    }
    tc_port_exit(0);
    return 0;
}
