/* SPDX-License-Identifier: 0BSD */
#include "listen.h"

void listen_reset(listen_t *listen)
{
    static const listen_t silent;

    *listen = silent;
}

/* The sums with the new output in the place of the oldest. Returns which of them is the largest, of equal ones the first. */
static int32_t add(listen_t *listen, const int8_t *scores)
{
    uint8_t *oldest = listen->seen[listen->next];
    int32_t best = 0;

    for (int32_t i = 0; i < LISTEN_OUTPUTS; i++) {
        const uint8_t score = (uint8_t)(scores[i] + 128);

        listen->sums[i] += (int32_t)score - (int32_t)oldest[i];
        oldest[i] = score;
        best = listen->sums[i] > listen->sums[best] ? i : best;
    }
    listen->next = (listen->next + 1) % LISTEN_MEAN_OF;
    return best;
}

int32_t listen_next(listen_t *listen, const int8_t *scores, int32_t *percent)
{
    const int32_t best = add(listen, scores);
    const int32_t average = 100 * listen->sums[best] / (256 * LISTEN_MEAN_OF);

    listen->rest_ms -= listen->rest_ms > 0 ? LISTEN_HOP_MS : 0;
    if (best >= LISTEN_WORDS || average < LISTEN_THRESHOLD_PERCENT || listen->rest_ms > 0) {
        return LISTEN_NOTHING;
    }
    listen->rest_ms = LISTEN_REST_MS;
    *percent = average;
    return best;
}
