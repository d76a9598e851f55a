/* What the SVDF kernels share. */
#ifndef TC_SVDF_H
#define TC_SVDF_H

#include "tc_math.h"

/* Adds x times four filters to newest; features is [in_c][4]. */
static inline void tc_svdf_features(const int8_t *x, const int8_t *features, int32_t in_c, int32_t newest[4])
{
    int32_t sum0 = newest[0], sum1 = newest[1], sum2 = newest[2], sum3 = newest[3];
    for (int32_t c = 0; c < in_c; c++, features += 4) {
        const int32_t v = x[c];
        sum0 += v * features[0];
        sum1 += v * features[1];
        sum2 += v * features[2];
        sum3 += v * features[3];
    }
    newest[0] = sum0;
    newest[1] = sum1;
    newest[2] = sum2;
    newest[3] = sum3;
}

/* The filter's state, of int16, moved by one, with `newest` behind it, and `sum` plus its product with `times`. */
static inline uint32_t tc_svdf_times(const int16_t *before, const int16_t *times, int32_t memory, int32_t newest,
                                     int16_t *after, uint32_t sum)
{
    for (int32_t m = 1; m < memory; m++) {
        const int32_t older = *++before;
        *after++ = (int16_t)older;
        sum += (uint32_t)(older * *times++);
    }
    *after = (int16_t)newest;
    return sum + (uint32_t)(newest * *times);
}

#endif
