/* SPDX-License-Identifier: 0BSD */
/* memcpy, memmove and memset for freestanding firmware: compilers call them even in C that never does.
 * Words where both pointers allow. Compiled without builtins, so that they do not call themselves. */
#include <stddef.h>
#include <stdint.h>

typedef uint32_t __attribute__((may_alias)) word_t;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *d = to;
    const uint8_t *s = from;
    if ((((uintptr_t)d ^ (uintptr_t)s) & 3) == 0) {
        for (; bytes > 0 && ((uintptr_t)d & 3) != 0; bytes--) *d++ = *s++;
        for (; bytes >= 16; bytes -= 16, d += 16, s += 16) {
            word_t a = ((const word_t *)(const void *)s)[0], b = ((const word_t *)(const void *)s)[1];
            word_t c = ((const word_t *)(const void *)s)[2], e = ((const word_t *)(const void *)s)[3];
            ((word_t *)(void *)d)[0] = a;
            ((word_t *)(void *)d)[1] = b;
            ((word_t *)(void *)d)[2] = c;
            ((word_t *)(void *)d)[3] = e;
        }
        for (; bytes >= 4; bytes -= 4, d += 4, s += 4) *(word_t *)(void *)d = *(const word_t *)(const void *)s;
    }
    for (; bytes > 0; bytes--) *d++ = *s++;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *d = to;
    const uint8_t *s = from;
    if ((uintptr_t)d - (uintptr_t)s >= bytes) return memcpy(to, from, bytes);
    if ((((uintptr_t)d ^ (uintptr_t)s) & 3) == 0) {
        for (; bytes > 0 && ((uintptr_t)(d + bytes) & 3) != 0; bytes--) d[bytes - 1] = s[bytes - 1];
        for (; bytes >= 4; bytes -= 4) *(word_t *)(void *)(d + bytes - 4) = *(const word_t *)(const void *)(s + bytes - 4);
    }
    for (; bytes > 0; bytes--) d[bytes - 1] = s[bytes - 1];
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *d = to;
    word_t word = (uint8_t)value * 0x01010101u;
    for (; bytes > 0 && ((uintptr_t)d & 3) != 0; bytes--) *d++ = (uint8_t)value;
    for (; bytes >= 16; bytes -= 16, d += 16) {
        ((word_t *)(void *)d)[0] = word;
        ((word_t *)(void *)d)[1] = word;
        ((word_t *)(void *)d)[2] = word;
        ((word_t *)(void *)d)[3] = word;
    }
    for (; bytes >= 4; bytes -= 4, d += 4) *(word_t *)(void *)d = word;
    for (; bytes > 0; bytes--) *d++ = (uint8_t)value;
    return to;
}

#ifdef __ARM_EABI__
/* The names by which Arm compilers may call them; the fill takes its arguments in another order. */
#define COPY(name) \
    void name(void *to, const void *from, size_t bytes); \
    void name(void *to, const void *from, size_t bytes)
#define FILL(name) \
    void name(void *to, size_t bytes, int value); \
    void name(void *to, size_t bytes, int value)
#define CLEAR(name) \
    void name(void *to, size_t bytes); \
    void name(void *to, size_t bytes)
COPY(__aeabi_memcpy) { memcpy(to, from, bytes); }
COPY(__aeabi_memcpy4) { memcpy(to, from, bytes); }
COPY(__aeabi_memcpy8) { memcpy(to, from, bytes); }
COPY(__aeabi_memmove) { memmove(to, from, bytes); }
COPY(__aeabi_memmove4) { memmove(to, from, bytes); }
COPY(__aeabi_memmove8) { memmove(to, from, bytes); }
FILL(__aeabi_memset) { memset(to, value, bytes); }
FILL(__aeabi_memset4) { memset(to, value, bytes); }
FILL(__aeabi_memset8) { memset(to, value, bytes); }
CLEAR(__aeabi_memclr) { memset(to, 0, bytes); }
CLEAR(__aeabi_memclr4) { memset(to, 0, bytes); }
CLEAR(__aeabi_memclr8) { memset(to, 0, bytes); }
#endif
