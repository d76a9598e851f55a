/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex of a program with one task. */
#include "freertos/FreeRTOS.h"

typedef struct {
    int taken;
} StaticSemaphore_t;
typedef StaticSemaphore_t *SemaphoreHandle_t;

static inline SemaphoreHandle_t xSemaphoreCreateMutexStatic(StaticSemaphore_t *memory)
{
    memory->taken = 0;
    return memory;
}

static inline BaseType_t xSemaphoreTake(SemaphoreHandle_t mutex, TickType_t ticks)
{
    (void)ticks;
    return mutex != NULL && mutex->taken++ == 0 ? pdTRUE : pdFALSE;
}

static inline BaseType_t xSemaphoreGive(SemaphoreHandle_t mutex)
{
    return mutex->taken-- == 1 ? pdTRUE : pdFALSE;
}
