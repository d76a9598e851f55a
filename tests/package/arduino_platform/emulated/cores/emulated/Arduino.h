/* SPDX-License-Identifier: Apache-2.0 */
/* As much of Arduino as a sketch needs that prints. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stddef.h>
#include <stdint.h>

class Printer {
public:
    void begin(unsigned long baud);
    void print(const char *text);
    void print(unsigned long number);
    void println(const char *text);
};

extern Printer Serial;
unsigned long micros();
void delay(unsigned long milliseconds);
void setup();
void loop();

#endif
