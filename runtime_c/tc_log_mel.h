/* SPDX-License-Identifier: 0BSD */
/* Logarithms of bands of the spectra of overlapping frames, to int8: for each frame what tc_spectrum, tc_spectrum_power (and, with
 * power 1, roots), tc_spectrum_bands, tc_spectrum_log and tc_spectrum_project compute one after the other.
 *
 * x: samples, of which frame i takes 2 half from i * step on. scratch: 2 half + 2 numbers, and bands pairs of words. y
 * [frames][bands].
 */
#ifndef TC_LOG_MEL_H
#define TC_LOG_MEL_H

#include "tc_signal_square_root_u64.h"
#include "tc_spectrum_bands_u32.h"
#include "tc_spectrum_bands_u64.h"
#include "tc_spectrum_log.h"
#include "tc_spectrum_power.h"
#include "tc_spectrum_project.h"
#include "tc_spectrum_taper.h"
#include "tc_spectrum_transform.h"

typedef struct {
    const int32_t *window, *twiddles, *split; /* of tc_spectrum_t */
    const uint16_t *weights, *spans; /* of tc_spectrum_bands_t */
    const int32_t *table, *least; /* of tc_spectrum_log_t */
    const uint32_t *add;
    const int32_t *factor, *offset; /* of tc_spectrum_project_t */
    int32_t half, radix, begin, end, bands, bits, power, step, frames;
} tc_log_mel_t;

static inline void tc_log_mel_parts(const tc_log_mel_t *p, tc_spectrum_t *spectrum, tc_spectrum_bands_t *bands, tc_spectrum_log_t *log, tc_spectrum_project_t *project)
{
    spectrum->window = p->window;
    spectrum->n = 2 * p->half;
    spectrum->held = 0;
    spectrum->emphasis = 0;
    spectrum->half = p->half;
    bands->weights = p->weights;
    bands->spans = p->spans;
    bands->bands = p->bands;
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

static void tc_log_mel(const tc_log_mel_t *p, const int16_t *x, void *scratch, int8_t *y)
{
    int32_t *const bins = (int32_t *)scratch;
    uint32_t *const power = (uint32_t *)scratch, *const sums = power + 2 * p->half + 2;
    const int32_t none = 0;
    tc_spectrum_t spectrum;
    tc_spectrum_bands_t bands;
    tc_spectrum_log_t log;
    tc_spectrum_project_t project;

    tc_log_mel_parts(p, &spectrum, &bands, &log, &project);
    for (int32_t frame = 0; frame < p->frames; frame++, y += p->bands) {
        int32_t scale;
        spectrum.begin = frame * p->step;
        scale = tc_spectrum_taper(&spectrum, x, x, bins);
        tc_spectrum_transform(p->twiddles, p->split, p->half, p->radix, bins);
        tc_spectrum_power(bins, p->begin, p->end, power);
        if (p->power == 1) {
            tc_signal_square_root_u64(power, &none, p->end - p->begin, power);
            tc_spectrum_bands_u32(&bands, power, sums);
        } else {
            tc_spectrum_bands_u64(&bands, power, sums);
        }
        tc_spectrum_log(&log, sums, &scale, (int32_t *)(void *)sums);
        tc_spectrum_project(&project, (const int32_t *)(void *)sums, y);
    }
}

#endif
