/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FREERTOS_H
#define FREERTOS_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t TickType_t;
typedef int BaseType_t;
#define portMAX_DELAY 0xffffffffu
#define pdTRUE 1
#define pdFALSE 0

#endif
