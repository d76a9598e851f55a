/* SPDX-License-Identifier: 0BSD */
/* Which words does the model hear in the clips of clips.h? With the wrapper kws.hpp. */
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "clips.h"
#include "kws.hpp"

static tinyc::kws::Model model; /* with its arena */

/* The index of the word that the model hears in a clip. */
static int heard(const int16_t (&features)[CLIP_SIZE])
{
    auto input = model.input_0();

    std::transform(std::begin(features), std::end(features), input.begin(), [](int16_t feature) {
        return tinyc::kws::Model::quantize_input_0(static_cast<float>(feature) / CLIP_STEPS);
    });
    if (!model.run()) {
        return -1;
    }
    const auto output = model.output_0();
    return static_cast<int>(std::max_element(output.begin(), output.end()) - output.begin());
}

int main()
{
    int wrong = 0;

    static_assert(CLIP_SIZE == KWS_INPUT_0_SIZE && CLIP_LABELS == KWS_OUTPUT_0_SIZE, "clips of another model");
    for (int clip = 0; clip < CLIP_COUNT; clip++) {
        const int word = heard(clip_features[clip]);

        std::printf("clip %d: %s", clip + 1, word < 0 ? "nothing" : clip_labels[word]);
        if (word == clip_said[clip]) {
            std::puts(", as expected");
        } else {
            std::printf(", expected %s\n", clip_labels[clip_said[clip]]);
            wrong++;
        }
    }
    std::puts(wrong == 0 ? "all clips as expected" : "NOT all clips as expected");
    return wrong;
}
