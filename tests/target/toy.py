# SPDX-License-Identifier: Apache-2.0
"""A hand-made library in the form that tinyc generates, for tests of building and running.

Two inputs and two outputs of int8, three steps: y = saturate(3x + 5), a 9x7 matrix product with 64-bit
requantization, and a division (a helper function on cores without the instruction). `Variant` changes
step 1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

A, B, C = 9, 7, 5  # elements: input 0 and output 0 have A, input 1 has B, output 1 has C
OFFSETS = {"in0": 0, "in1": 16, "mid": 24, "out0": 40, "out1": 56}
ARENA_BYTES = 61
MULT, SHIFT = 1717986918, -7


class Variant(Enum):
    """What is added to step 1: a defect, or something whose effect is known."""

    NONE = ""
    BELOW = "arena[-1] ^= 1;"
    ABOVE = f"arena[{ARENA_BYTES}] ^= 1;"
    UNMAPPED = "*(volatile uint8_t *)(uintptr_t)0x60000001u = 1;"
    FLASH_WRITE = "*(volatile uint8_t *)(uintptr_t)&toy_w[0][0] = 1;"
    UNDEFINED = "volatile int one = 1; if (one) { __builtin_trap(); }"
    MOVES_SP = '__asm__ volatile("mov.w r12, sp" ::: "r12");'
    ENDLESS = "for (volatile int spin = 1; spin != 0;) { spin = 1; }"
    STACK_OVERFLOW = "arena[0] = (uint8_t)(arena[0] + toy_deep(arena, 100000));"
    BIG_STACK = "volatile uint8_t big[1000]; for (int i = 0; i < 1000; i++) { big[i] = 1; } (void)big[999];"
    COUNT_100 = '__asm__ volatile(".syntax unified\\nmovs r0, #100\\n1: subs r0, #1\\n bne 1b" ::: "r0", "cc");'
    COUNT_101 = '__asm__ volatile(".syntax unified\\nmovs r0, #101\\n1: subs r0, #1\\n bne 1b" ::: "r0", "cc");'
    PAGES = """__asm__ volatile(".rept 300\\n add.w r0, r0, #1\\n .endr\\n nop\\n"
                               ".rept 300\\n add.w r0, r0, #1\\n .endr" ::: "r0");"""
    LDRD = '__asm__ volatile("add r2, %0, #2\\n ldrd r2, r3, [r2]" :: "r"(arena) : "r2", "r3", "memory");'
    STM = '__asm__ volatile("add r2, %0, #2\\n stm r2, {r0, r1}" :: "r"(arena) : "r2", "memory");'
    VLDR = '__asm__ volatile("add r2, %0, #2\\n vldr s0, [r2]" :: "r"(arena) : "r2", "s0", "memory");'
    LDR = '__asm__ volatile("ldr r2, [%0, #2]\\n ldrh r2, [%0, #1]" :: "r"(arena) : "r2", "memory");'
    AS_DATA = '__asm__ volatile("adds r2, #1\\n .short 0x3201, 0xf102, 0x0201\\n adds r2, #1" ::: "r2", "cc");'
    SMLAD = '__asm__ volatile(".inst.w 0xfb210302" ::: "r3");'
    CBZ = '__asm__ volatile(".inst.n 0xb100" :::);'
    DIV64 = '__asm__ volatile(".inst.w 0xee800b01" ::: "s0");'
    WIDE_CONSTANTS = "arena[40] = toy_big[arena[0]];"
    VARIABLE = "static int8_t calls = 1; calls = (int8_t)(arena[0] + calls);"
    UNINITIALISED = f"arena[{OFFSETS['mid']}] = arena[23];"


def weights() -> list[list[int]]:
    rng = random.Random(3)
    return [[rng.randint(-128, 127) for _ in range(B)] for _ in range(A)]


@dataclass(frozen=True, slots=True)
class Expected:
    outputs: tuple[bytes, bytes]
    steps: dict[int, bytes]


def reference(tensors: Sequence[bytes]) -> Expected:
    """What the library computes."""
    x0 = [b - 256 if b > 127 else b for b in tensors[0]]
    x1 = [b - 256 if b > 127 else b for b in tensors[1]]
    mid = [_clamp(3 * x + 5) for x in x0]
    out0 = [
        _clamp(_requantize(mid[i] + sum(w * x for w, x in zip(row, x1, strict=True))))
        for i, row in enumerate(weights())
    ]
    out1 = [_clamp(_divide(mid[i] * 100, 1 + (out0[i] & 15))) for i in range(C)]
    pack = [bytes(v & 255 for v in values) for values in (mid, out0, out1)]
    return Expected((pack[1], pack[2]), dict(enumerate(pack)))


def inputs(count: int, seed: int = 1) -> list[list[bytes]]:
    """Random inferences; the first two are at the ends of the range."""
    rng = random.Random(seed)
    drawn = [[bytes([value]) * A, bytes([value]) * B] for value in (0x80, 0x7F)]
    drawn += [[rng.randbytes(A), rng.randbytes(B)] for _ in range(count)]
    return drawn[:count]


def _clamp(v: int) -> int:
    return max(-128, min(127, v))


def _requantize(acc: int) -> int:
    right = 31 - SHIFT
    return (acc * MULT + (1 << (right - 1))) >> right


def _divide(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


def write_library(folder: Path, variant: Variant = Variant.NONE) -> Path:
    """Writes toy.h and toy.c; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy.h").write_text(_HEADER)
    rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in weights())
    source = _SOURCE.replace("@WEIGHTS@", rows).replace("@VARIANT@", variant.value)
    before = {Variant.STACK_OVERFLOW: _DEEP, Variant.WIDE_CONSTANTS: _BIG}.get(variant, "")
    (folder / "toy.c").write_text(source.replace("@BEFORE@", before))
    return folder


_HEADER = f"""\
#ifndef TOY_H
#define TOY_H
#include <stddef.h>
#include <stdint.h>
#define TOY_ARENA_BYTES {ARENA_BYTES}
#define TOY_ARENA_ALIGN 16
#define TOY_INPUT_COUNT 2
#define TOY_OUTPUT_COUNT 2
#define TOY_STEP_COUNT 3
#define TOY_INPUT_0_BYTES {A}
#define TOY_INPUT_1_BYTES {B}
#define TOY_OUTPUT_0_BYTES {A}
#define TOY_OUTPUT_1_BYTES {C}
int8_t *toy_input_0(void *arena);
int8_t *toy_input_1(void *arena);
const int8_t *toy_output_0(const void *arena);
const int8_t *toy_output_1(const void *arena);
int toy_run(void *arena);
const char *toy_version(void);
#define TOY_STEP_0_OUTPUT_OFFSET {OFFSETS["mid"]}
#define TOY_STEP_0_OUTPUT_BYTES {A}
#define TOY_STEP_1_OUTPUT_OFFSET {OFFSETS["out0"]}
#define TOY_STEP_1_OUTPUT_BYTES {A}
#define TOY_STEP_2_OUTPUT_OFFSET {OFFSETS["out1"]}
#define TOY_STEP_2_OUTPUT_BYTES {C}
#endif
"""

_DEEP = """\
static int toy_deep(volatile uint8_t *p, int depth);
static int (*volatile toy_deep_call)(volatile uint8_t *, int) = toy_deep;
static __attribute__((noinline)) int toy_deep(volatile uint8_t *p, int depth)
{
    volatile int here[16];
    here[depth & 15] = depth;
    return depth == 0 ? *p : here[depth & 15] + toy_deep_call(p, depth - 1);
}
"""

_BIG = "static const uint8_t toy_big[5000] = {1, 2, 3};"

_SOURCE = f"""\
#include "toy.h"
#ifndef TOY_AFTER_STEP
#define TOY_AFTER_STEP(step, arena) ((void)0)
#endif

static const int8_t toy_w[{A}][{B}] = {{@WEIGHTS@}};

static int32_t toy_clamp(int32_t v)
{{
    return v < -128 ? -128 : v > 127 ? 127 : v;
}}

@BEFORE@
static __attribute__((noinline)) int32_t toy_requantize(int32_t acc)
{{
    return (int32_t)(((int64_t)acc * {MULT} + ((int64_t)1 << {30 - SHIFT})) >> {31 - SHIFT});
}}

static __attribute__((noinline)) void toy_step_0(uint8_t *arena)
{{
    const int8_t *x = (const int8_t *)arena + {OFFSETS["in0"]};
    int8_t *y = (int8_t *)arena + {OFFSETS["mid"]};
    for (int i = 0; i < {A}; i++) y[i] = (int8_t)toy_clamp(3 * x[i] + 5);
}}

static __attribute__((noinline)) void toy_step_1(uint8_t *arena)
{{
    const int8_t *x = (const int8_t *)arena + {OFFSETS["in1"]};
    const int8_t *mid = (const int8_t *)arena + {OFFSETS["mid"]};
    int8_t *y = (int8_t *)arena + {OFFSETS["out0"]};
    @VARIANT@
    for (int o = 0; o < {A}; o++) {{
        int32_t acc = mid[o];
        for (int i = 0; i < {B}; i++) acc += x[i] * toy_w[o][i];
        y[o] = (int8_t)toy_clamp(toy_requantize(acc));
    }}
}}

static __attribute__((noinline)) void toy_step_2(uint8_t *arena)
{{
    const int8_t *mid = (const int8_t *)arena + {OFFSETS["mid"]};
    const int8_t *x = (const int8_t *)arena + {OFFSETS["out0"]};
    int8_t *y = (int8_t *)arena + {OFFSETS["out1"]};
    for (int i = 0; i < {C}; i++) y[i] = (int8_t)toy_clamp(mid[i] * 100 / (1 + (x[i] & 15)));
}}

int toy_run(void *arena)
{{
    uint8_t *base = (uint8_t *)arena;
    if (arena == NULL || (uintptr_t)arena % TOY_ARENA_ALIGN != 0) return 1;
    toy_step_0(base);
    TOY_AFTER_STEP(0, base);
    toy_step_1(base);
    TOY_AFTER_STEP(1, base);
    toy_step_2(base);
    TOY_AFTER_STEP(2, base);
    return 0;
}}

int8_t *toy_input_0(void *arena) {{ return (int8_t *)arena + {OFFSETS["in0"]}; }}
int8_t *toy_input_1(void *arena) {{ return (int8_t *)arena + {OFFSETS["in1"]}; }}
const int8_t *toy_output_0(const void *arena) {{ return (const int8_t *)arena + {OFFSETS["out0"]}; }}
const int8_t *toy_output_1(const void *arena) {{ return (const int8_t *)arena + {OFFSETS["out1"]}; }}
const char *toy_version(void) {{ return "toy 1"; }}
"""
