/* SPDX-License-Identifier: 0BSD */
/* Logarithms of bands of the spectra of overlapping frames, to int8: what tc_log_mel.h and tc_log_mel_mixed.h
 * share.
 *
 * For each frame, what tc_spectrum, tc_spectrum_power (and, with power 1, roots), tc_spectrum_bands,
 * tc_spectrum_log and tc_spectrum_project compute one after the other.
 */
#ifndef TC_LOG_MEL_FRAMES_H
#define TC_LOG_MEL_FRAMES_H

#include "tc_spectrum_bands.h"
#include "tc_spectrum_log.h"
#include "tc_spectrum_power.h"
#include "tc_spectrum_project.h"
#include "tc_spectrum_roots.h"
#include "tc_spectrum_taper.h"

typedef struct {
    const int32_t *window, *twiddles, *split; /* of tc_spectrum_t */
    const uint16_t *weights, *spans; /* of tc_spectrum_bands_t */
    const int32_t *table, *least; /* of tc_spectrum_log_t */
    const uint32_t *add;
    const int32_t *factor, *offset; /* of tc_spectrum_project_t */
    int32_t half, radix, begin, end, bands, bits, power, step, frames;
} tc_log_mel_t;

/* The parameters of a frame's transform; `begin` is left to be set. */
static inline tc_spectrum_t tc_log_mel_spectrum(const tc_log_mel_t *p)
{
    const tc_spectrum_t spectrum = {p->window, p->twiddles, p->split, 2 * p->half, 0, 0, 0, p->half,
        p->radix};
    return spectrum;
}

static inline void tc_log_mel_parts(const tc_log_mel_t *p, tc_spectrum_log_t *log,
                                    tc_spectrum_project_t *project)
{
    log->table = p->table;
    log->least = p->least;
    log->add = p->add;
    log->n = p->bands;
    log->power = p->power;
    project->factor = p->factor;
    project->offset = p->offset;
    project->results = p->bands;
    project->n = 1;
    project->step = 1;
    project->bits = p->bits;
    project->least = -128;
    project->most = 127;
    project->cuts = 0;
}

/* What bands are sums of, in place of a frame's bins: powers, or magnitudes. */
static inline uint32_t *tc_log_mel_sizes(const tc_log_mel_t *p, int32_t *bins)
{
    uint32_t *const sizes = (uint32_t *)(void *)bins;

    tc_spectrum_power(bins, p->begin, p->end, sizes);
    if (p->power == 1) {
        tc_spectrum_roots(sizes, p->end - p->begin, sizes);
    }
    return sizes;
}

/* Sums of bands, which are lost, with the scale of the samples -> y [bands]. */
static inline void tc_log_mel_logs(const tc_log_mel_t *p, uint32_t *sums, int32_t scale, int8_t *y)
{
    tc_spectrum_log_t log;
    tc_spectrum_project_t project;

    tc_log_mel_parts(p, &log, &project);
    tc_spectrum_log(&log, sums, &scale, (int32_t *)(void *)sums);
    tc_spectrum_project(&project, (const int32_t *)(void *)sums, y);
}

static inline tc_spectrum_bands_t tc_log_mel_bands(const tc_log_mel_t *p)
{
    const tc_spectrum_bands_t bands = {p->weights, p->spans, p->bands};
    return bands;
}

/* A frame's bins, which are lost, with the scale of its samples -> y [bands]. sums [bands][2]: scratch. */
static inline void tc_log_mel_frame(const tc_log_mel_t *p, int32_t *bins, int32_t scale, uint32_t *sums,
                                    int8_t *y)
{
    const uint32_t *const sizes = tc_log_mel_sizes(p, bins);
    const tc_spectrum_bands_t bands = tc_log_mel_bands(p);

    if (p->power == 1) {
        tc_spectrum_bands_u32(&bands, sizes, sums);
    } else {
        tc_spectrum_bands_u64(&bands, sizes, sums);
    }
    tc_log_mel_logs(p, sums, scale, y);
}

#endif
