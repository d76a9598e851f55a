/* SPDX-License-Identifier: 0BSD */
/* The parameters of tc_motion_spectrum_s16.h and tc_motion_spectrum_s16_mve.h. */
#ifndef TC_MOTION_SPECTRUM_H
#define TC_MOTION_SPECTRUM_H

#include "tc_motion.h"
#include "tc_spectrum_taper.h"

typedef struct {
    tc_motion_s16_t of;
    tc_spectrum_t transform; /* its tables and sizes */
} tc_motion_spectrum_s16_t;

#endif
