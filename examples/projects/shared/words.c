/* SPDX-License-Identifier: 0BSD */
#include "words.h"

#include "clips.h"

#if CLIP_SIZE != KWS_INPUT_0_SIZE || CLIP_LABELS != KWS_OUTPUT_0_SIZE || CLIP_COUNT > 9
#error "clips.h is for the model of examples/kws, and for one digit of clips"
#endif

/* The index of the word that the model hears in a clip; less than 0 for an arena that cannot be one. */
static int heard(kws_arena_t *arena, const int16_t *features)
{
    int8_t *input = kws_input_0(arena);
    const int8_t *output;
    int best = 0;

    for (int i = 0; i < CLIP_SIZE; i++) {
        input[i] = kws_quantize_input_0((float)features[i] / CLIP_STEPS);
    }
    if (kws_run(arena) != KWS_OK) {
        return -1;
    }
    output = kws_output_0(arena);
    for (int i = 1; i < CLIP_LABELS; i++) {
        best = output[i] > output[best] ? i : best;
    }
    return best;
}

int words_run(kws_arena_t *arena, words_say_t say)
{
    int wrong = 0;

    for (int clip = 0; clip < CLIP_COUNT; clip++) {
        const char number[2] = {(char)('1' + clip), 0};
        const int word = heard(arena, clip_features[clip]);

        say("clip ");
        say(number);
        say(": ");
        say(word < 0 ? "nothing" : clip_labels[word]);
        if (word == clip_said[clip]) {
            say(", as expected\n");
        } else {
            say(", expected ");
            say(clip_labels[clip_said[clip]]);
            say("\n");
            wrong++;
        }
    }
    say(wrong == 0 ? "all clips as expected\n" : "NOT all clips as expected\n");
    return wrong;
}
