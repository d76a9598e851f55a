/* SPDX-License-Identifier: 0BSD */
/* A recording to words: what an application with a microphone does, with a file in the microphone's place. */
#include "kws.h"
#include "listen.h"
#include "port.h"

#define RATE 16000
#define BLOCK 160 /* samples that come at once, as from a microphone's buffer; any number up to KWS_HOP_SAMPLES */

/* Fails to compile where the model is not the one that listen.h describes. */
typedef char outputs_are_those_of_the_model[KWS_OUTPUT_0_SIZE == LISTEN_OUTPUTS ? 1 : -1];
typedef char hop_is_that_of_the_model[KWS_HOP_SAMPLES * 1000 == LISTEN_HOP_MS * RATE ? 1 : -1];
typedef char no_output_is_missed[BLOCK <= KWS_HOP_SAMPLES ? 1 : -1];

static const char *const NAMES[LISTEN_WORDS] = {"yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"};

static kws_arena_t arena;
static listen_t listener;

/* Right-aligned decimal digits before `end`, at least `least` of them. Returns their begin. */
static char *number(char *end, uint32_t value, int32_t least)
{
    for (; value != 0 || least > 0; value /= 10, least--) {
        *--end = (char)('0' + value % 10);
    }
    return end;
}

/* `  1.30 s  yes  79 %` */
static void say(uint32_t at_ms, int32_t word, int32_t percent)
{
    char text[16];

    text[15] = 0;
    port_say(number(text + 15, at_ms / 1000, 1));
    port_say(".");
    port_say(number(text + 15, at_ms % 1000 / 10, 2));
    port_say(" s  ");
    port_say(NAMES[word]);
    port_say("  ");
    port_say(number(text + 15, (uint32_t)percent, 1));
    port_say(" %\n");
}

static uint32_t little(const uint8_t *bytes, int32_t n)
{
    return n == 0 ? 0 : bytes[0] | little(bytes + 1, n - 1) << 8;
}

static int skip(uint32_t n)
{
    uint8_t byte;

    for (; n > 0; n--) {
        if (port_read(&byte, 1) != 1) {
            return 0;
        }
    }
    return 1;
}

/* Whether a `fmt ` chunk says what the model takes. */
static int fits(const uint8_t *format)
{
    return little(format, 2) == 1 && little(format + 2, 2) == 1 && little(format + 4, 4) == RATE && little(format + 14, 2) == 16;
}

/* Reads a WAV file up to its first sample. Returns how many bytes of samples there are; 0: none that fit. */
static uint32_t begin(void)
{
    uint8_t head[16];
    int fit = 0;

    if (port_read(head, 12) != 12 || little(head, 4) != 0x46464952u || little(head + 8, 4) != 0x45564157u) {
        return 0; /* RIFF, WAVE */
    }
    while (port_read(head, 8) == 8) {
        uint32_t bytes = little(head + 4, 4);

        if (little(head, 4) == 0x61746164u) { /* data */
            return fit ? bytes : 0;
        }
        if (little(head, 4) == 0x20746d66u && bytes >= 16) { /* fmt */
            fit = port_read(head, 16) == 16 && fits(head);
            bytes -= 16;
        }
        if (!skip(bytes + (bytes & 1u))) {
            return 0;
        }
    }
    return 0;
}

/* The next samples of the stream, at most a hop of them, so that each output can be read. */
static void take(const int16_t *samples, int32_t n, uint32_t at_ms)
{
    int32_t percent;

    if (kws_push(&arena, samples, n) > 0) {
        const int32_t word = listen_next(&listener, kws_output_0(&arena), &percent);

        if (word != LISTEN_NOTHING) {
            say(at_ms, word, percent);
        }
    }
}

int recording_run(void)
{
    static uint8_t bytes[2 * BLOCK];
    static int16_t samples[BLOCK];
    uint32_t left = begin(), heard = 0;

    if (left == 0) {
        port_say("error: the recording is no WAV file of 16,000 Hz, one channel and 16 bits\n");
        return 1;
    }
    (void)kws_reset(&arena);
    listen_reset(&listener);
    while (left >= 2) {
        const int32_t n = port_read(bytes, left < sizeof bytes ? (int32_t)left : (int32_t)sizeof bytes) / 2;

        if (n == 0) {
            break; /* the file is shorter than it says */
        }
        for (int32_t i = 0; i < n; i++) {
            samples[i] = (int16_t)little(bytes + 2 * i, 2);
        }
        heard += (uint32_t)n;
        left -= 2u * (uint32_t)n;
        take(samples, n, heard / (RATE / 1000));
    }
    return 0;
}
