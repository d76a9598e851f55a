/* SPDX-License-Identifier: 0BSD */
/* Attention with Helium (MVE): two rows at a time, keys and values of a head widened to int16 once.
 *
 * scratch, at words, int16: two rows of queries or of shares (16 for each eight of the greater of depth and
 * keys), keys by columns, values by columns (tc_matmul_mve.h: 32 for each eight steps and four columns);
 * int8: two rows of scores.
 */
#ifndef TC_ATTENTION_MVE_H
#define TC_ATTENTION_MVE_H

#include "tc_attention.h"
#include "tc_matmul_mve.h"

typedef struct {
    tc_matmul_mve_job_t product, context;
    int16_t *xs, *ks, *vs;
    int8_t *scores;
} tc_attention_mve_job_t;

/* By a pointer: without optimization a compiler would call memcpy for a job that is returned. */
static inline void tc_attention_mve_begin(tc_attention_mve_job_t *job, const tc_attention_t *p, void *scratch)
{
    const int32_t deep = (p->depth + 7) >> 3, keys = (p->keys + 7) >> 3;
    job->xs = (int16_t *)scratch;
    job->ks = job->xs + 16 * (deep > keys ? deep : keys);
    job->vs = job->ks + 32 * deep * ((p->keys + 3) >> 2);
    job->scores = (int8_t *)(job->vs + 32 * keys * ((p->width + 3) >> 2));
    job->product = (tc_matmul_mve_job_t){job->xs, job->ks, deep, p->keys, job->scores, job->scores + p->keys};
    job->context = (tc_matmul_mve_job_t){job->xs, job->vs, keys, p->width, 0, 0};
}

/* Keys and values of head h. */
static TC_UNUSED void tc_attention_mve_head(const tc_attention_t *p, const tc_attention_mve_job_t *job,
                                            const int8_t *k, const int8_t *v, int32_t h)
{
    tc_matmul_mve_columns(k + p->k_first + h * p->k_head, p->depth, p->keys, p->k_next, p->k_row, p->k_zero,
                          job->ks);
    tc_matmul_mve_columns(v + p->v_first + h * p->v_head, p->keys, p->width, p->v_row, p->v_next, p->v_zero,
                          job->vs);
}

/* A kernel `name` with parameters `name`_t. shares(layer, row, xs): the softmax of p->keys scores, less its
 * zero point, with zeros behind up to the end of the last eight; the scores may be lost. An odd last row is
 * made twice. */
#define TC_ATTENTION_MVE(name, shares)                                                                       \
    static void name(const name##_t *layer, const int8_t *q, const int8_t *k, const int8_t *v, int8_t *y,    \
                     void *scratch)                                                                          \
    {                                                                                                        \
        const tc_attention_t *p = &layer->at;                                                                \
        tc_attention_mve_job_t job;                                                                          \
        tc_attention_mve_begin(&job, p, scratch);                                                            \
        int8_t *row0 = job.scores, *row1 = job.scores + p->keys;                                             \
        for (int32_t h = 0; h < p->heads; h++) {                                                             \
            const int8_t *head = q + p->q_first + h * p->q_head;                                             \
            int8_t *out = y + p->y_first + h * p->y_head;                                                    \
            tc_attention_mve_head(p, &job, k, v, h);                                                         \
            for (int32_t t = 0; t < p->rows; t += 2) {                                                       \
                const int32_t other = t + 1 < p->rows ? t + 1 : t;                                           \
                int16_t *const second = job.xs + 8 * job.product.eights;                                     \
                tc_matmul_mve_widen(head + t * p->q_row, p->depth, p->q_next, p->q_zero, job.xs);            \
                tc_matmul_mve_widen(head + other * p->q_row, p->depth, p->q_next, p->q_zero, second);        \
                tc_matmul_mve_rows(&layer->product, &job.product);                                           \
                tc_attention_look_up(p, h, t, row0);                                                         \
                tc_attention_look_up(p, h, other, row1);                                                     \
                shares(layer, row0, job.xs);                                                                 \
                shares(layer, row1, job.xs + 8 * job.context.eights);                                        \
                job.context.y0 = out + t * p->y_row;                                                         \
                job.context.y1 = out + other * p->y_row;                                                     \
                tc_matmul_mve_rows(&layer->context, &job.context);                                           \
            }                                                                                                \
        }                                                                                                    \
    }

#endif
