/* SPDX-License-Identifier: 0BSD */
/* From the outputs of a model that listens to words: the mean of the last outputs, a threshold, and a time of rest.
 *
 * A word is said while several outputs in a row hear it. So scores are averaged, and a word counts when its average is
 * the largest and reaches a threshold; after it nothing counts for a while, since the same word is still in the window.
 * All is in integers: the same outputs give the same words everywhere.
 */
#ifndef LISTEN_H
#define LISTEN_H

#include <stdint.h>

/* What the model gives: int8 scores of a softmax, in 1 / 256 from -128 on. The first LISTEN_WORDS of the LISTEN_OUTPUTS
 * are words; the others (silence, anything else) never count. LISTEN_HOP_MS: from one output to the next. */
#define LISTEN_OUTPUTS 12
#define LISTEN_WORDS 10
#define LISTEN_HOP_MS 100

/* How quick and how sure it is. More outputs in the mean, or a higher threshold: fewer false words, later ones. A
 * rest that is shorter than the model's window may count one word twice. */
#ifndef LISTEN_MEAN_OF
#define LISTEN_MEAN_OF 5
#endif
#ifndef LISTEN_THRESHOLD_PERCENT
#define LISTEN_THRESHOLD_PERCENT 60
#endif
#ifndef LISTEN_REST_MS
#define LISTEN_REST_MS 1000
#endif

#define LISTEN_NOTHING (-1)

typedef struct {
    uint8_t seen[LISTEN_MEAN_OF][LISTEN_OUTPUTS]; /* the last outputs, from 0 on */
    int32_t sums[LISTEN_OUTPUTS];
    int32_t next;    /* which of seen is the oldest */
    int32_t rest_ms; /* until a word counts again */
} listen_t;

/* As before the first output. Outputs that did not come yet count as zero. */
void listen_reset(listen_t *listen);

/* Takes the next output. Returns the number of a word, and its average in percent (rounded down), or LISTEN_NOTHING. */
int32_t listen_next(listen_t *listen, const int8_t *scores, int32_t *percent);

#endif
