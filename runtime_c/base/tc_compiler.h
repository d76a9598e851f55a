/* SPDX-License-Identifier: 0BSD */
/* What the library takes of its compiler beyond C99: attributes, and assembly.
 *
 * GNU C (gcc, clang, and what is made of them: armclang, zig, TI's and ST's clang) is found by __GNUC__.
 * Every other compiler gets C99 and nothing else; so does GNU C where TC_PORTABLE is defined. All give the
 * same bytes, assembly gives them sooner.
 */
#ifndef TC_COMPILER_H
#define TC_COMPILER_H

#include <limits.h>
#include <stdint.h>

#if INT_MAX < 0x7fffffff
#error "tinyc's libraries compute in int of 32 bits: with less, as for AVR, their numbers are wrong"
#endif

#if defined(__GNUC__) && !defined(TC_PORTABLE)
#define TC_GNU 1
#else
#define TC_GNU 0
#endif

#if TC_GNU && (defined(__ARM_RWPI) || defined(__APCS_RWPI) || defined(__FDPIC__))
#error "r9 holds the base of the data here, and the assembly of tinyc uses it: compile with -DTC_PORTABLE"
#endif
#if TC_GNU && defined(__PIC__) && defined(__arm__) && !defined(__clang__)
/* gcc defines nothing for -msingle-pic-base -mpic-register=r9, but refuses this then. */
__attribute__((used)) static void tc_uses_r9(void)
{
    __asm__ volatile("" ::: "r9");
}
#endif

#if TC_GNU
#define TC_UNUSED __attribute__((unused))
#define TC_NOINLINE __attribute__((noinline))
#define TC_INLINE static inline __attribute__((always_inline))
typedef uint32_t __attribute__((may_alias)) tc_word_t; /* four bytes of anything, aligned */
typedef struct {
    uint32_t word;
} __attribute__((packed, may_alias)) tc_any_word_t; /* at any address */
#else
#define TC_UNUSED
#define TC_NOINLINE
#define TC_INLINE static inline
#endif

/* Functions in assembly, on words as their authors count on, and those that an application calls. Callers
 * guess nothing of what is in them. TC_ALONE: functions that take little of the time. Compilers would unroll
 * them for the sizes that they are called with, into three times the code. */
#if TC_GNU && defined(__clang__)
#define TC_NAKED __attribute__((naked, noinline, unused, aligned(4)))
#define TC_ENTRY __attribute__((noinline))
#define TC_ALONE __attribute__((noinline))
#elif TC_GNU
#define TC_NAKED __attribute__((naked, noipa, unused, aligned(4)))
#define TC_ENTRY __attribute__((noipa))
#define TC_ALONE __attribute__((noinline, noclone))
#else
#define TC_ENTRY
#define TC_ALONE
#endif

/* Directives that tell a debugger of the caller of a function in assembly. Assemblers take them where the
 * compiler writes such of its own, as with -g: gcc says so, clang does not exactly (compile with -g
 * -DTC_UNWIND=1).
 */
#ifndef TC_UNWIND
#if defined(__GCC_HAVE_DWARF2_CFI_ASM) && !defined(__clang__)
#define TC_UNWIND 1
#else
#define TC_UNWIND 0
#endif
#endif
#if TC_UNWIND
#define TC_CFI(directives) directives "\n"
#else
#define TC_CFI(directives)
#endif

/* Four bytes in memory order at any address; in GNU C one load or store where the core allows it, and never a
 * call. */
static inline uint32_t tc_load_word(const void *from)
{
#if TC_GNU
    return ((const tc_any_word_t *)from)->word;
#else
    uint32_t word;
    for (int32_t i = 0; i < 4; i++) {
        ((uint8_t *)&word)[i] = ((const uint8_t *)from)[i];
    }
    return word;
#endif
}

static inline void tc_store_word(void *to, uint32_t word)
{
#if TC_GNU
    ((tc_any_word_t *)to)->word = word;
#else
    for (int32_t i = 0; i < 4; i++) {
        ((uint8_t *)to)[i] = ((const uint8_t *)&word)[i];
    }
#endif
}

#if TC_GNU && defined(__riscv_mul) && __riscv_xlen == 32
#define TC_RV32_ASM 1
#else
#define TC_RV32_ASM 0
#endif

/* Bit manipulation of RISC-V: least and greatest, addresses, signs (Zba, Zbb). */
#if defined(__riscv_zbb) && defined(__riscv_zba)
#define TC_RV32_BITS 1
#else
#define TC_RV32_BITS 0
#endif

#endif
