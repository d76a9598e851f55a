/* SPDX-License-Identifier: 0BSD */
/* y = the nearest integers to the roots of n numbers of two words, which may lie there: by division where the
 * core has an instruction for it.
 */
#ifndef TC_SPECTRUM_ROOTS_H
#define TC_SPECTRUM_ROOTS_H

#include "tc_dsp.h"

#if TC_DSP_ASM

#include "tc_signal_square_root_u64_dsp.h"

static inline void tc_spectrum_roots(const uint32_t *x, int32_t n, uint32_t *y)
{
    const int32_t none = 0;
    tc_signal_square_root_u64_dsp(x, &none, n, y);
}

#else

#include "tc_signal_square_root_u64.h"

static inline void tc_spectrum_roots(const uint32_t *x, int32_t n, uint32_t *y)
{
    const int32_t none = 0;
    tc_signal_square_root_u64(x, &none, n, y);
}

#endif
#endif
