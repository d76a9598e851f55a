/* SPDX-License-Identifier: 0BSD */
/* tc_add_s16.h with Helium (tc_add_mve.h). Same results; y may be an input that does not repeat. */
#ifndef TC_ADD_S16_MVE_H
#define TC_ADD_S16_MVE_H

#include "tc_add_mve.h"

TC_ADD_MVE(tc_add_s16_mve, int16_t)

#endif
