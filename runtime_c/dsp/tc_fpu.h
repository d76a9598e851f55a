/* SPDX-License-Identifier: 0BSD */
/* Who may interrupt a library that keeps integers in the registers of the FPU: nobody who changes them.
 * The core saves s0 to s15 when an interrupt comes (FPCCR.ASPEN, set at reset), a scheduler has to save s16
 * to s31.
 *
 * What can be seen at compile time ends the build; TC_FPU_UNSAVED says that one thread alone, and no
 * interrupt, uses the FPU. With TC_CHECK_FPU each run looks at the core, which has to be in privileged mode.
 */
#ifndef TC_FPU_H
#define TC_FPU_H

#if defined(__ARM_FP) && !defined(TC_PORTABLE) && !defined(TC_FPU_UNSAVED)
#if defined(__ZEPHYR__) && defined(CONFIG_MULTITHREADING) && !defined(CONFIG_FPU_SHARING)
#error Zephyr saves no FPU of threads: CONFIG_FPU_SHARING=y, or TC_FPU_UNSAVED if one alone uses it
#endif
#if defined(__NuttX__)
#include <nuttx/config.h>
#if !defined(CONFIG_ARCH_FPU)
#error NuttX saves no FPU of tasks: CONFIG_ARCH_FPU=y, or TC_FPU_UNSAVED if one alone uses it
#endif
#endif
#if defined(configENABLE_FPU)
#if configENABLE_FPU == 0
#error FreeRTOS saves no FPU of tasks: configENABLE_FPU 1, or TC_FPU_UNSAVED if one alone uses it
#endif
#endif
#endif

/* Whether a handler of PendSV that switches threads (MSR PSP) saves registers of the FPU (VSTM). Ports of a
 * scheduler for a core without FPU do not, which no macro says. Handlers may share a tail before them. */
static inline int tc_switch_keeps_fpu(const uint16_t *code)
{
    int switches = 0, saves = 0, has_condition = 0;

    for (int32_t count = 0; count < 256 && (has_condition || *code != 0x4770u); count++) { /* up to BX LR */
        has_condition = (*code & 0xFF0Fu) == 0xBF08u; /* IT, of the next one */
        switches |= (*code & 0xFFF0u) == 0xF380u && code[1] == 0x8809u;
        saves |= (*code & 0xFE00u) == 0xEC00u && (code[1] & 0x0E00u) == 0x0A00u;
        if ((*code & 0xFC00u) == 0xE400u) { /* B, backwards */
            code -= 2046 - (int32_t)(*code & 0x7FFu);
        } else {
            code += *code < 0xE800u ? 1 : 2;
        }
    }
    return !switches || saves;
}

/* scs: the core's own registers, from 0xE000E000 on. */
static inline int tc_fpu_is_kept(const volatile uint32_t *scs)
{
    int is_on = (scs[0xD88 / 4] >> 20 & 0xFu) == 0xFu; /* CPACR */
    int is_stacked = (int)(scs[0xF34 / 4] >> 31);      /* FPCCR.ASPEN */

    return is_on && is_stacked;
}

#if defined(TC_CHECK_FPU) && defined(__ARM_FP) && !defined(TC_PORTABLE) && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
static inline int tc_fpu_is_safe(void)
{
    const volatile uint32_t *scs = (const volatile uint32_t *)0xE000E000u;
    const uint32_t *vectors = (const uint32_t *)(uintptr_t)scs[0xD08 / 4];

    return tc_fpu_is_kept(scs) && tc_switch_keeps_fpu((const uint16_t *)(uintptr_t)(vectors[14] & ~1u));
}
#define TC_FPU_IS_SAFE() tc_fpu_is_safe()
#endif
#endif
#ifndef TC_FPU_IS_SAFE
#define TC_FPU_IS_SAFE() 1
#endif

#endif
