/* SPDX-License-Identifier: 0BSD */
/* Firmware that speaks the serial protocol of the MLPerf Tiny benchmark, so that the benchmark's own runner can drive a
 * board (docs/mlperf.md). Commands end in '%', answers are lines, the last one of each answer is m-ready.
 *
 * Whatever comes in, each '%' is answered: a command that is too long, unknown, incomplete or wrong by a line e-[...].
 */
#include "mlperf_glue.h"
#include "port.h"
#include "tc_model.h"
#include "text.h"

enum { COMMAND_BYTES = 80, TOKENS = 4, PRINT_COLUMNS = 8 };
enum { DEFAULT_WARMUPS = 10 };
enum { TOO_MANY = 1000000000 }; /* numbers from here on are refused */

static uint8_t data[TC_MLPERF_DATA_BYTES]; /* what db loads */
static uint32_t data_size, data_there;
static uint8_t *arena;
static int has_results;

/* --- text ------------------------------------------------------------------------------------- */

/* With six decimals, half away from zero; what has no place in 32 bits is shown at its limit. */
static void put_real(float value)
{
    const float limit = 4000000000.0f;
    int negative = value < 0.0f;
    float size = negative ? -value : value;
    uint32_t whole = (uint32_t)(size < limit ? size : limit);
    uint32_t millionths = size < limit ? (uint32_t)((size - (float)whole) * 1000000.0f + 0.5f) : 0;
    char fraction[8] = ".000000";
    if (millionths == 1000000) {
        millionths = 0;
        whole++;
    }
    if (negative && (whole | millionths) != 0) tc_put_text("-");
    for (int i = 6; i > 0; i--, millionths /= 10) fraction[i] = (char)('0' + millionths % 10);
    tc_put_number(whole);
    tc_put_text(fraction);
}

static void put_error(const char *what)
{
    tc_put_text("e-[");
    tc_put_text(what);
    tc_put_text("]\r\n");
}

static int equal(const char *a, const char *b)
{
    while (*a != 0 && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* A whole number below TOO_MANY in decimal digits and nothing else. */
static int parse_number(const char *text, uint32_t *value)
{
    uint32_t number = 0;
    if (*text == 0) return 0;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9') return 0;
        number = number * 10 + (uint32_t)(*text - '0');
        if (number >= TOO_MANY) return 0;
    }
    *value = number;
    return 1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* --- the model -------------------------------------------------------------------------------- */

void tc_fault(const uint32_t words[TC_FAULT_WORDS])
{
    tc_put_text("e-[Fault at 0x");
    for (int shift = 24; shift >= 0; shift -= 8) {
        const uint8_t byte = (uint8_t)(words[3] >> shift);
        tc_put_hex(&byte, 1);
    }
    tc_put_text("]\r\nm-ready\r\n");
    tc_port_exit(3);
}

static float real_at(uint32_t index)
{
    union {
        uint32_t bits;
        float real;
    } both;
    const uint8_t *p = data + 4 * index;
    both.bits = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return both.real;
}

#if TC_MLPERF_SAMPLES
/* The samples of one hop go through the front end and, where it is due, the model. Negative: refused. */
static int32_t push_samples(void)
{
    static int16_t samples[TC_MLPERF_SAMPLES];
    for (uint32_t i = 0; i < TC_MLPERF_SAMPLES; i++)
        samples[i] = (int16_t)(uint16_t)(data[2 * i] | (uint32_t)data[2 * i + 1] << 8);
    return tc_mlperf_push(arena, samples, TC_MLPERF_SAMPLES);
}

static int infer_once(void)
{
    (void)real_at;
    return push_samples() < 0;
}
#else
/* The input has to be written before every run: the arena's bytes are used again. */
static int infer_once(void)
{
    uint8_t *input = tc_input(arena, 0);
#if TC_MLPERF_FLOAT_INPUT
    for (uint32_t i = 0; i < TC_MLPERF_INPUT_ELEMENTS; i++) input[i] = (uint8_t)tc_mlperf_quantize(real_at(i));
#else
    for (uint32_t i = 0; i < TC_MLPERF_DATA_BYTES; i++) input[i] = (uint8_t)(data[i] ^ TC_MLPERF_FLIP);
    (void)real_at;
#endif
    tc_model_reset(arena); /* the benchmark's inputs are no sequence */
    return tc_model_run(arena);
}
#endif

#if TC_MLPERF_MEAN_SQUARE
static void put_results(void)
{
    float sum = 0.0f;
    for (uint32_t i = 0; i < TC_MLPERF_OUTPUT_ELEMENTS; i++) {
        float difference = tc_mlperf_output(arena, i) - real_at(i);
        sum += difference * difference;
    }
    tc_put_text("m-results-[");
    put_real(sum / (float)TC_MLPERF_OUTPUT_ELEMENTS);
    tc_put_text("]\r\n");
}
#else
static void put_results(void)
{
    tc_put_text("m-results-[");
    for (uint32_t i = 0; i < TC_MLPERF_OUTPUT_ELEMENTS; i++) {
        if (i > 0) tc_put_text(",");
        put_real(tc_mlperf_output(arena, i));
    }
    tc_put_text("]\r\n");
}
#endif

static void put_lap(void)
{
    tc_put_text("m-lap-us-");
    tc_put_number(tc_port_microseconds());
    tc_put_text("\r\n");
}

static int repeat(uint32_t times)
{
    while (times-- > 0) {
        if (infer_once() != 0) {
            put_error("The model refused to run");
            return 0;
        }
    }
    return 1;
}

/* --- commands --------------------------------------------------------------------------------- */

static void do_infer(char **token)
{
    uint32_t count = 1, warmups = DEFAULT_WARMUPS;
    if (token[1] != 0 && (!parse_number(token[1], &count) || count == 0)) {
        put_error("Inference iterations must be >0");
    } else if (token[1] != 0 && token[2] != 0 && !parse_number(token[2], &warmups)) {
        put_error("Inference warmup must be >=0");
    } else if (data_size != TC_MLPERF_DATA_BYTES || data_there != data_size) {
        tc_put_text("e-[Load all ");
        tc_put_number(TC_MLPERF_DATA_BYTES);
        tc_put_text(" bytes of the input first]\r\n");
    } else {
        tc_put_text("m-warmup-start-");
        tc_put_number(warmups);
        tc_put_text("\r\n");
        if (!repeat(warmups)) return;
        tc_put_text("m-warmup-done\r\nm-infer-start-");
        tc_put_number(count);
        tc_put_text("\r\n");
        put_lap();
        if (!repeat(count)) return;
        put_lap();
        tc_put_text("m-infer-done\r\n");
        has_results = 1;
        put_results();
    }
}

#if TC_MLPERF_FRAME_BYTES
/* The streaming wakeword, with what comes over the line in place of audio: after `start`, every `db load` of one frame,
 * of samples or of features, moves the window on by it and runs the model. `stop` tells the first output of every run,
 * and how long all of them took. */
enum { MOST_FRAMES = 4096 };
static int8_t activations[MOST_FRAMES];
static uint32_t frames;
static uint64_t busy; /* microseconds */
static int detecting;
#if !TC_MLPERF_SAMPLES
static uint8_t window[TC_MLPERF_DATA_BYTES];
#endif

static void do_start(void)
{
#if TC_MLPERF_SAMPLES
    tc_model_reset(arena);
#else
    for (uint32_t i = 0; i < TC_MLPERF_DATA_BYTES; i++) window[i] = 0;
#endif
    frames = 0;
    busy = 0;
    detecting = 1;
    has_results = 0;
    tc_put_text("m-detecting\r\n");
}

static void do_stop(void)
{
    if (!detecting) put_error("Not started");
    detecting = 0;
    tc_put_text("m-lap-us-");
    tc_put_number(busy);
    tc_put_text("\r\ntarget activations:\r\n[");
    for (uint32_t i = 0; i < frames; i++) {
        if (i > 0) tc_put_text(",");
        const int value = activations[i];
        if (value < 0) tc_put_text("-");
        tc_put_number((uint32_t)(value < 0 ? -value : value));
    }
    tc_put_text("]\r\n");
}

#if TC_MLPERF_SAMPLES
/* A frame has been loaded. As long as the window is not full, the model is not run: the least output stands for that. */
static void next_frame(void)
{
    if (frames == MOST_FRAMES) {
        put_error("Too many frames");
    } else {
        const uint64_t begin = tc_port_microseconds();
        const int32_t outputs = push_samples();
        busy += tc_port_microseconds() - begin;
        activations[frames++] = (int8_t)(outputs > 0 ? tc_mlperf_integer(arena, 0) : -128);
        has_results = outputs > 0;
    }
}
#else
/* A frame has been loaded: into the window, and the window into `data`, which infer_once takes. */
static void next_frame(void)
{
    const uint64_t begin = tc_port_microseconds();
    const uint32_t kept = TC_MLPERF_DATA_BYTES - TC_MLPERF_FRAME_BYTES;
    for (uint32_t i = 0; i < kept; i++) window[i] = window[i + TC_MLPERF_FRAME_BYTES];
    for (uint32_t i = 0; i < TC_MLPERF_FRAME_BYTES; i++) window[kept + i] = data[i];
    for (uint32_t i = 0; i < TC_MLPERF_DATA_BYTES; i++) data[i] = window[i];
    if (frames == MOST_FRAMES) {
        put_error("Too many frames");
    } else if (repeat(1)) {
        busy += tc_port_microseconds() - begin;
        activations[frames++] = tc_mlperf_integer(arena, 0);
        has_results = 1;
    }
}
#endif
#endif

static void do_results(void)
{
    if (has_results) {
        put_results();
    } else {
        put_error("Infer first");
    }
}

static void db_load(const char *size)
{
    uint32_t bytes;
    if (size == 0) {
        put_error("Command 'db load' requires the # of bytes");
    } else if (!parse_number(size, &bytes) || bytes == 0) {
        put_error("Command 'db load' must be >0 bytes");
    } else if (bytes > TC_MLPERF_DATA_BYTES) {
        tc_put_text("e-[The input has ");
        tc_put_number(TC_MLPERF_DATA_BYTES);
        tc_put_text(" bytes]\r\n");
    } else {
        data_size = bytes;
        data_there = 0;
        has_results = 0;
        tc_put_text("m-[Expecting ");
        tc_put_number(bytes);
        tc_put_text(" bytes]\r\n");
    }
}

static void db_print(char **token)
{
    uint32_t count = data_size, offset = 0;
    if ((token[2] != 0 && !parse_number(token[2], &count)) ||
        (token[2] != 0 && token[3] != 0 && !parse_number(token[3], &offset))) {
        put_error("Command 'db print' takes the # of bytes and an offset");
        return;
    }
    if (offset > data_size) offset = data_size;
    if (count > data_size - offset) count = data_size - offset;
    for (uint32_t i = 0; i < count; i++) {
        tc_put_text(i % PRINT_COLUMNS == 0 ? "m-buffer-" : "-");
        tc_put_hex(data + offset + i, 1);
        if ((i + 1) % PRINT_COLUMNS == 0 || i + 1 == count) tc_put_text("\r\n");
    }
}

/* All or nothing: a wrong digit leaves what was loaded before. */
static void db_bytes(const char *text)
{
    uint32_t digits = 0;
    for (; text[digits] != 0; digits++) {
        if (hex_digit(text[digits]) < 0) {
            put_error("Invalid hex digit");
            return;
        }
    }
    if (digits % 2 != 0) {
        put_error("Insufficient number of hex digits");
    } else if (data_there >= data_size) {
        put_error("Use 'db load' first");
    } else {
        for (uint32_t i = 0; i < digits && data_there < data_size; i += 2)
            data[data_there++] = (uint8_t)(hex_digit(text[i]) << 4 | hex_digit(text[i + 1]));
        if (data_there == data_size) tc_put_text("m-load-done\r\n");
#if TC_MLPERF_FRAME_BYTES
        if (data_there == data_size && detecting && data_size == TC_MLPERF_FRAME_BYTES) next_frame();
#endif
    }
}

static void do_db(char **token)
{
    if (token[1] == 0) {
        put_error("Command 'db' requires a subcommand");
    } else if (equal(token[1], "load")) {
        db_load(token[2]);
    } else if (equal(token[1], "print")) {
        db_print(token);
    } else {
        db_bytes(token[1]);
    }
}

static void do_help(void)
{
    tc_put_text(TC_MLPERF_PROFILE "\r\n\r\n"
        "help                : this list\r\n"
        "name                : the device\r\n"
        "profile             : the protocol and the model\r\n"
        "timestamp           : microseconds since the start\r\n"
        "db load N           : N bytes of input follow\r\n"
        "db HH[HH]*          : these bytes, in hex\r\n"
        "db print [N] [FROM] : the bytes that are there\r\n"
        "infer [N=1] [W=10]  : W runs to warm up, then N that are timed\r\n"
        "results             : outputs of the last run\r\n"
#if TC_MLPERF_FRAME_BYTES
        "start               : forget all frames; each that is loaded from now on runs the model\r\n"
        "stop                : the first output for each frame, and the time of all\r\n"
#endif
    );
}

static void put_name(void)
{
    tc_put_text("m-name-dut-[tinyc]\r\n");
}

static void serve(char **token)
{
    if (token[0] == 0) {
        put_error("Empty command");
    } else if (equal(token[0], "name")) {
        put_name();
    } else if (equal(token[0], "profile")) {
        tc_put_text("m-profile-[" TC_MLPERF_PROFILE "]\r\nm-model-[" TC_MLPERF_MODEL "]\r\n");
    } else if (equal(token[0], "timestamp")) {
        put_lap();
    } else if (equal(token[0], "help")) {
        do_help();
    } else if (equal(token[0], "db")) {
        do_db(token);
    } else if (equal(token[0], "infer")) {
        do_infer(token);
    } else if (equal(token[0], "results")) {
        do_results();
#if TC_MLPERF_FRAME_BYTES
    } else if (equal(token[0], "start")) {
        do_start();
    } else if (equal(token[0], "stop")) {
        do_stop();
#endif
    } else {
        tc_put_text("e-[Unknown command: ");
        tc_put_text(token[0]);
        tc_put_text("]\r\n");
    }
    tc_put_text("m-ready\r\n");
}

/* Cuts the command at its spaces; what is behind the last token is left out. */
static void split(char *command, char **token)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TOKENS; i++) token[i] = 0;
    while (*command != 0 && count < TOKENS) {
        while (*command == ' ') *command++ = 0;
        if (*command == 0) return;
        token[count++] = command;
        while (*command != 0 && *command != ' ') command++;
    }
    if (*command == ' ') *command = 0;
}

int main(void)
{
    char command[COMMAND_BYTES + 1], *token[TOKENS];
    uint32_t length = 0;
    int guarded;
    uint8_t byte;
    tc_port_open();
    arena = tc_port_arena(&guarded);
#if TC_MLPERF_SAMPLES
    tc_model_reset(arena);
#endif
    tc_put_text("m-init-done\r\n");
    put_name(); /* which the benchmark's runner asks for when it opens the port, and may have asked already */
    tc_port_flush();
    while (tc_port_read(&byte, 1)) {
        if (byte == '%') {
            if (length > COMMAND_BYTES) {
                put_error("Command too long");
                tc_put_text("m-ready\r\n");
            } else {
                command[length] = 0;
                split(command, token);
                serve(token);
            }
            length = 0;
            tc_port_flush();
        } else if (byte >= ' ' && byte <= '~') {
            if (length < COMMAND_BYTES) command[length] = (char)byte;
            if (length <= COMMAND_BYTES) length++;
        }
    }
    tc_port_exit(0);
    return 0;
}
