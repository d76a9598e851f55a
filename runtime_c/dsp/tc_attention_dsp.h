/* SPDX-License-Identifier: 0BSD */
/* Attention with the DSP extension: two rows at a time, keys and values of a head widened to int16 once.
 *
 * scratch, int32: words of two rows of queries or of shares (four for each four of the greater of depth and
 * keys), keys by columns, values by columns (tc_matmul_dsp.h: eight words for each four steps and four
 * columns), what the softmax keeps of a row, two rows of scores.
 */
#ifndef TC_ATTENTION_DSP_H
#define TC_ATTENTION_DSP_H

#include "tc_attention.h"
#include "tc_matmul_dsp.h"

typedef struct {
    tc_matmul_job_t product, context;
    int32_t *xs, *ks, *vs, *kept;
    int8_t *scores;
} tc_attention_job_t;

/* words: that the softmax keeps of a row. By a pointer: without optimization a compiler would call memcpy
 * for a job that is returned. */
static inline void tc_attention_begin(tc_attention_job_t *job, const tc_attention_t *p, void *scratch,
                                      int32_t words)
{
    const int32_t most = p->depth > p->keys ? p->depth : p->keys;
    job->xs = (int32_t *)scratch;
    job->ks = job->xs + ((most + 3) & ~3);
    job->vs = job->ks + 8 * ((p->depth + 3) >> 2) * ((p->keys + 3) >> 2);
    job->kept = job->vs + 8 * ((p->keys + 3) >> 2) * ((p->width + 3) >> 2);
    job->scores = (int8_t *)(job->kept + words);
    job->product = (tc_matmul_job_t){job->xs, job->ks, (p->depth + 3) >> 2, 0, 0, 0};
    job->context = (tc_matmul_job_t){job->xs, job->vs, (p->keys + 3) >> 2, 0, 0, 0};
}

/* Keys and values of head h. */
static TC_UNUSED void tc_attention_head(const tc_attention_t *p, const tc_attention_job_t *job,
                                        const int8_t *k, const int8_t *v, int32_t h)
{
    tc_matmul_columns(k + p->k_first + h * p->k_head, p->depth, p->keys, p->k_next, p->k_row, p->k_zero,
                      job->ks);
    tc_matmul_columns(v + p->v_first + h * p->v_head, p->keys, p->width, p->v_row, p->v_next, p->v_zero,
                      job->vs);
}

/* A kernel `name` with parameters `name`_t. shares(layer, row, kept, xs): the softmax of p->keys scores,
 * widened to every other word of xs as tc_matmul_widen does; the scores may be lost. It has `words` words at
 * kept. An odd last row is made twice. */
#define TC_ATTENTION_DSP(name, shares, words)                                                                \
    static void name(const name##_t *layer, const int8_t *q, const int8_t *k, const int8_t *v, int8_t *y,    \
                     void *scratch)                                                                          \
    {                                                                                                        \
        const tc_attention_t *p = &layer->at;                                                                \
        tc_attention_job_t job;                                                                              \
        tc_attention_begin(&job, p, scratch, words);                                                         \
        int8_t *row0 = job.scores, *row1 = job.scores + p->keys;                                             \
        for (int32_t h = 0; h < p->heads; h++) {                                                             \
            const int8_t *head = q + p->q_first + h * p->q_head;                                             \
            int8_t *out = y + p->y_first + h * p->y_head;                                                    \
            tc_attention_head(p, &job, k, v, h);                                                             \
            for (int32_t t = 0; t < p->rows; t += 2) {                                                       \
                const int32_t other = t + 1 < p->rows ? t + 1 : t;                                           \
                tc_matmul_widen(head + t * p->q_row, p->depth, p->q_next, p->q_zero, 2, job.xs);             \
                tc_matmul_widen(head + other * p->q_row, p->depth, p->q_next, p->q_zero, 2, job.xs + 1);     \
                tc_matmul_two_rows(&layer->product, &job.product, p->keys, row0, row1);                      \
                tc_attention_look_up(p, h, t, row0);                                                         \
                tc_attention_look_up(p, h, other, row1);                                                     \
                shares(layer, row0, job.kept, job.xs);                                                       \
                shares(layer, row1, job.kept, job.xs + 1);                                                   \
                tc_matmul_two_rows(&layer->context, &job.context, p->width, out + t * p->y_row,              \
                                   out + other * p->y_row);                                                  \
            }                                                                                                \
        }                                                                                                    \
    }

#endif
