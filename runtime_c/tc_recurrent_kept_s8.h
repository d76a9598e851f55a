/* SPDX-License-Identifier: 0BSD */
/* Recurrent layers that go on where the last run ended, in portable C. */
#ifndef TC_RECURRENT_KEPT_S8_H
#define TC_RECURRENT_KEPT_S8_H

#include "tc_recurrent_kept.h"
#include "tc_recurrent_s8.h"

typedef struct {
    tc_recurrent_s8_t layer;
    tc_recurrent_kept_t kept;
} tc_recurrent_kept_s8_t;

#endif
